//! The duration of recorded operations, from the speed of the machine's kernels.
//!
//! - [`Work`]: the kind, sizes, arithmetic and bytes of an operation.
//! - [`Speeds`]: how long work takes, from measured [`Sample`]s of a machine or from the data sheet of a GPU.
//! - [`cost`]: the seconds of a recording.

mod cost;
mod speeds;
mod step;
mod work;

pub use cost::{cost, forward_costs};
pub use speeds::{ARITHMETIC_SHARE, BANDWIDTH_SHARE, DeviceSpeeds, Measured, Peak, Sample, Speeds};
pub use step::{RecordedSteps, StepWork};
pub use work::Work;
