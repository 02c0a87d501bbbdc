//! What the tests of the exporters share.

pub(crate) mod sample;
