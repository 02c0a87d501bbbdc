//! Out of memory as an answer: what was asked for, what was held and for what, and what to change.

mod adapt;
mod advice;
mod error;
mod explain;
mod levers;
mod report;
mod surroundings;
mod text;
mod write;

pub use adapt::adapt;
pub use advice::{Advice, Advised, advise};
pub use error::{OutOfMemory, Shortage};
pub use report::{Kept, OutOfMemoryReport, ReportFiles};
pub use surroundings::{OtherProcess, Surroundings, free_bytes};

pub(crate) use advice::Subject;
pub(crate) use error::check;
pub use explain::check_plan;
pub(crate) use explain::{Circumstances, explain};
