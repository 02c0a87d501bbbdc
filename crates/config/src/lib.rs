//! Reads, layers and validates oomph's configuration.
