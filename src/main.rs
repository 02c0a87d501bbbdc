//! The oomph binary.
fn main() {}
