//! The sections whose keys oomph itself knows, one a file.

pub(crate) mod device;
pub(crate) mod memory;
pub(crate) mod optimizer;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod sharing;
pub(crate) mod train;

use std::ops::Bound;

/// Every number above zero.
pub(crate) const POSITIVE: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Unbounded);
