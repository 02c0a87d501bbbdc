//! Numbers as PTX has them where Rust's own arithmetic has no operation for it.

pub(crate) mod bits;
pub(crate) mod half;
pub(crate) mod minmax;
pub(crate) mod rounding;
