//! Memory known before a run: records a step and lets the planner play the allocator over it.

mod record;

use oomph_core::Bytes;
use oomph_memory::Timeline;
use oomph_plan::{Backend, Head, replay};

use crate::{Session, TrainError};
use record::{Work, record};

/// What is planned, where it differs from the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// Samples of one optimizer step; else the configured batch.
    pub batch: Option<usize>,
    /// Samples of one forward-backward; else the configured micro-batch, at most the batch.
    pub micro_batch: Option<usize>,
    /// What the device may use.
    pub limit_bytes: Option<Bytes>,
}

/// Plans two optimizer steps and an evaluation batch. Nothing is executed and no tensor allocated.
///
/// # Errors
/// Where the model or the task refuse the batch.
pub fn plan(session: &Session, options: PlanOptions) -> Result<Timeline, TrainError> {
    let batch = options.batch.unwrap_or(session.config.train.batch);
    let micro_batch = options.micro_batch.unwrap_or_else(|| session.micro_batch()).min(batch);
    let work = Work { batch, micro_batch, eval_batch: Some(session.eval_batch().min(batch)), steps: 2 };
    let recording = record(session, work)?;
    let head = Head {
        title: format!("{} · batch {batch}", session.architecture.name()),
        device: session.config.device.devices[0].to_string(),
        limit_bytes: options.limit_bytes,
    };
    Ok(replay(&recording, &Backend::Cpu { threads: oomph_memory::running_threads() }, head))
}
