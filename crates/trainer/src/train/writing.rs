//! The checkpoint that another thread writes while the training goes on.

use std::{
    panic::resume_unwind,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use oomph_runs::{
    RunDirectory, RunError,
    state::{SavedCheckpoint, StateError},
};

/// A thread that writes a checkpoint. Its allocations are the host's.
pub(super) struct Writing {
    step: usize,
    /// How long the training stood still, until the thread began.
    paused: Duration,
    thread: JoinHandle<Result<(SavedCheckpoint, f64), RunError>>,
}

/// A checkpoint that was written.
pub(super) struct Written {
    pub(super) checkpoint: SavedCheckpoint,
    /// Seconds from the begin of the save until it was on disk.
    pub(super) seconds: f64,
    /// Seconds of these in which the training stood still.
    pub(super) paused_seconds: f64,
}

impl Writing {
    /// Begins to `write` the state after `step` optimizer steps. The save began at `start`.
    ///
    /// # Errors
    /// Where the system has no thread for it.
    pub(super) fn begin(
        run: Arc<RunDirectory>,
        step: usize,
        start: Instant,
        write: impl FnOnce(&RunDirectory) -> Result<SavedCheckpoint, RunError> + Send + 'static,
    ) -> Result<Self, RunError> {
        let path = run.path().to_owned();
        let work = move || {
            let checkpoint = write(&run)?;
            Ok((checkpoint, start.elapsed().as_secs_f64()))
        };
        let thread = thread::Builder::new().name("oomph-checkpoint".into()).spawn(work);
        let thread = thread.map_err(StateError::io("start a thread that writes to", path))?;
        Ok(Self { step, paused: start.elapsed(), thread })
    }

    /// Optimizer steps of the checkpoint.
    pub(super) fn step(&self) -> usize {
        self.step
    }

    /// Waits until the checkpoint is on disk.
    ///
    /// # Errors
    /// Those of [`RunDirectory::save`].
    pub(super) fn finish(self) -> Result<Written, RunError> {
        let waiting = Instant::now();
        let (checkpoint, seconds) = self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        let paused = self.paused + waiting.elapsed();
        Ok(Written { checkpoint, seconds, paused_seconds: paused.as_secs_f64() })
    }
}
