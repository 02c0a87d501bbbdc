//! The out-of-memory report: the allocation that failed, the memory in use, and the settings that make it fit.

mod advisor;
mod check;
mod explain;
mod levers;
mod process_memory;
mod report;
mod text;
mod write;

pub use advisor::{Advised, Subject, advise, advise_on};
pub use check::PlannedTraining;
pub use explain::{Adaptation, OomContext, adapt, explain};
pub use process_memory::{OtherProcess, ProcessMemory, free_bytes};
pub use report::{Advice, Kept, OutOfMemory, OutOfMemoryReport, ReportFiles};
