//! Some steps of a training under the meter: measured and compared, or rehearsed.

mod devices;
mod overhead;
mod planned;
mod rehearse;
mod speed;
mod steps;

pub use overhead::measured_overhead;
pub use planned::{PlannedStep, plan_step};
pub use rehearse::{Rehearsal, RehearseOptions, rehearse};
pub use speed::WARMUP;
pub use steps::{MeasureError, Measurement, measure};
