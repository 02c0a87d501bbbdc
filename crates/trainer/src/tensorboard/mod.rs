//! What a run's events are in TensorBoard: a file of records beside `metrics.jsonl`, for each process of the run.

mod file;
mod frame;
mod histogram;
mod message;
mod scalars;

pub(crate) use file::EventFile;
pub(crate) use histogram::Histogram;
