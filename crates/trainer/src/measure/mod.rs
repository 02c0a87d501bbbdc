//! Some steps of a training under the meter: measured and compared, or rehearsed.

mod error;
mod planned;
mod rehearse;
mod speed;
mod steps;

pub use error::{MeasureError, check_alone};
pub use planned::{PlannedStep, plan_step};
pub use rehearse::{Rehearsal, RehearseOptions, rehearse};
pub use steps::{MeasureOptions, Measurement, measure};
