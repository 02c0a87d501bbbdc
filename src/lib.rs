//! oomph.
