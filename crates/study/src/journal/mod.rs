//! Records, and the file that holds them.

mod attributes;
mod distribution;
mod json;
mod lines;
mod log;
mod record;

pub use attributes::Attributes;
pub(crate) use attributes::typed;
pub use distribution::Distribution;
pub use json::Number;
pub(crate) use lines::{LONGEST_LINE, Lines};
pub(crate) use log::Log;
pub use record::{
    CreateStudy, CreateTrial, DeleteStudy, Intermediate, Operation, Owner, Record, SetTrialState,
    StudyAttribute, TrialAttribute, TrialParameter, TrialState,
};
