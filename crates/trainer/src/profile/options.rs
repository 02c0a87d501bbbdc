use std::path::PathBuf;

/// How much is profiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Warm-up steps, left out of the profile: they make the optimizer state and the backend's lasting buffers.
    pub warmup: usize,
    /// Profiled steps.
    pub steps: usize,
    /// Evaluation batches after the steps, if the training evaluates.
    pub eval_batches: usize,
    /// Events kept, warm-up included. The newest are kept.
    pub capacity: usize,
    /// Directory of the out-of-memory report. Without it, none is written.
    pub report: Option<PathBuf>,
}

impl Default for ProfileOptions {
    /// Two warm-up steps, five profiled steps, two evaluation batches, and a million events (40 MiB).
    fn default() -> Self {
        Self { warmup: 2, steps: 5, eval_batches: 2, capacity: 1_000_000, report: None }
    }
}
