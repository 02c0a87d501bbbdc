//! TensorBoard event files: one for each process of a run, beside `metrics.jsonl`.

mod file;
mod frame;
mod histogram;
mod message;

pub use file::EventFile;
pub use histogram::Histogram;
