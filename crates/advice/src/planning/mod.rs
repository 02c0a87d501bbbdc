//! Plans: the engine's steps recorded on a capture device, with the allocator replayed over the recording.

mod capture;
mod choice;
mod chooser;
mod chosen;
mod coordinated;
mod cover;
mod device_recording;
mod devices;
mod duration;
mod evaluation;
mod fit;
mod largest;
mod micro_batch_check;
mod one_device;
mod options;
mod plans;
mod splitter;

pub use choice::{
    choose, describe_changes, describe_choice, describe_policy, describe_settings, eval_batch, micro_batch,
    micro_batch_of,
};
pub use device_recording::STEPS;
pub(crate) use devices::usual_splits;
pub use devices::{PlannedCut, PlannedPart, plan_cut, plan_parts, planned_peak, planned_sum, split_stages};
pub use duration::PlannedTime;
pub(crate) use evaluation::eval_order_of;
pub use fit::{Fitted, Frontier, choice_of, fit_changes, fitted, frontier, with_choice};
pub(crate) use fit::{Levers, Search, combinations};
pub use largest::{BatchNeed, largest_batch};
pub(crate) use micro_batch_check::check_micro_batch;
pub use one_device::{plan, plan_evaluation, plan_replicas, plan_with_time, seconds_per_sample, slowdown};
pub use options::{PlanOptions, check_shares, fits};
pub(crate) use splitter::with_split_points;
