//! The out-of-memory report: the allocation that failed, the memory in use, and the settings that make it fit.

mod adapt;
mod advisor;
mod error;
mod explain;
mod levers;
mod process_memory;
mod report;
mod text;
mod write;

pub use adapt::{Adaptation, adapt};
pub use advisor::{Advised, Subject, advise};
pub use error::OutOfMemory;
pub use explain::{OomContext, check_plan, explain};
pub use process_memory::{OtherProcess, ProcessMemory, free_bytes};
pub use report::{Advice, Kept, OutOfMemoryReport, ReportFiles};
