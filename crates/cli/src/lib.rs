//! The commands of oomph.
