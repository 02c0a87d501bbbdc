//! The checkpoint that another thread writes while the training goes on.

use std::{
    panic::resume_unwind,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Instant,
};

use oomph_runs::{
    RunDirectory, RunError,
    state::{SavedCheckpoint, StateError},
};

/// A thread that writes a checkpoint. Its allocations are the host's.
pub(super) struct Writing {
    step: usize,
    thread: JoinHandle<Result<Written, RunError>>,
}

/// A checkpoint that was written.
pub(super) struct Written {
    pub(super) checkpoint: SavedCheckpoint,
    /// Seconds from the begin of the save until it was on disk.
    pub(super) seconds: f64,
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
            Ok(Written { checkpoint, seconds: start.elapsed().as_secs_f64() })
        };
        let thread = thread::Builder::new().name("oomph-checkpoint".into()).spawn(work);
        Ok(Self { step, thread: thread.map_err(StateError::io("start a thread that writes to", path))? })
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
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}
