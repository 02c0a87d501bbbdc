//! Some steps of a training under the meter: measured and compared, or rehearsed.

mod overhead;
mod rehearse;
mod speed;
mod steps;

pub use overhead::measured_overhead;
pub use rehearse::{Rehearsal, RehearseOptions, rehearse};
pub use speed::WARMUP;
pub use steps::{MeasureError, Measurement, PlannedStep, check_alone, measure, plan_step};
