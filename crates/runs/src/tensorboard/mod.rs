//! TensorBoard event files: one for each process of a run, beside `metrics.jsonl`.

mod file;
mod frame;
mod histogram;
mod message;
mod scalars;

pub use file::EventFile;
pub use histogram::Histogram;
