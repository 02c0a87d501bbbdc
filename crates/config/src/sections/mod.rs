//! The sections with keys that oomph itself knows, one per file.

pub mod averaging;
mod batch;
pub mod class_weights;
pub mod device;
pub mod eval_metric;
pub mod fit;
pub mod memory;
pub mod offload;
pub mod optimizer;
pub mod run;
pub mod schedule;
pub mod sharing;
pub mod space;
pub mod train;
pub mod tune;
