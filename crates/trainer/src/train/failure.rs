//! What a training does when it fails: it keeps what can be kept, and says what is known.

use std::path::PathBuf;

use oomph_config::OnOom;
use oomph_core::{Phase, current_device};

use super::Training;
use crate::{
    Event, Kept, OutOfMemory, RunDirectory, Session, Shortage, TrainError,
    memory_log::MemoryLog,
    out_of_memory::{Circumstances, Subject, explain},
    state::Checkpoint,
};

/// Reports in a run directory.
pub(super) const REPORT: &str = "out-of-memory";

impl Training<'_> {
    /// Adds to an error what only the run knows: where it was, what was in use, and what is left.
    pub(super) fn explain(&mut self, error: TrainError) -> TrainError {
        match error {
            TrainError::LossScale { step, scale, lr, .. } => {
                TrainError::LossScale { step, scale, lr, checkpoint: self.saved.clone() }
            }
            error => error.with_explained(|error, device| self.explained(error, device)),
        }
    }

    /// The same of one that ran out of memory, on one of the devices that the model lies on.
    fn explained(&mut self, mut error: Box<OutOfMemory>, device: usize) -> Box<OutOfMemory> {
        // A step is counted once it is done, so that one that failed in the optimizer is.
        let in_step = error.phase.is_in_step() && !error.in_evaluation;
        error.at_step(self.progress.step + usize::from(in_step));
        // Of several devices the first is this thread's.
        let on = current_device() + device;
        let seen = self.memory_log.as_ref().and_then(|log| log.seen_on(on, &error));
        let known = Circumstances {
            subject: Subject::Training,
            device,
            seen,
            reserved_bytes: self.gauge.reserved_bytes(),
            run: Some((self.run.path().to_owned(), self.keep(&error))),
            directory: Some(self.run.path().join(REPORT)),
        };
        explain(self.session, &mut error, known);
        if self.session.config.memory.on_oom == OnOom::Adapt
            && self.stop.reason().is_none()
            && let Some(advice) = error.goes_on_with()
        {
            let adapted = advice.adapted(self.progress.step, error.to_string());
            // Where the log cannot be written, the error is what counts.
            let _ = self.tell(Event::Adapted(adapted));
        }
        error
    }

    /// Saves the state of the last finished step, where the device can be trusted with it.
    fn keep(&mut self, error: &OutOfMemory) -> Kept {
        if matches!(error.shortage, Shortage::Device { .. }) {
            return self.before("a device that failed is not trusted with its state".to_owned());
        }
        // Other ranks wait for this one in the middle of what it failed in; between steps they do as it says.
        let is_between = matches!(error.phase, Phase::Step | Phase::Checkpoint) && !error.in_evaluation;
        if !self.session.replicas.is_alone() && !is_between {
            return self.before("in the middle of a step several ranks save nothing".to_owned());
        }
        if self.progress.step == 0 {
            return Kept::Nothing { reason: "no step was finished".to_owned() };
        }
        // What is crossed from here on is no step's.
        oomph_memory::take_crossing();
        let saved = self.save(false);
        match (&self.saved, saved) {
            (Some(checkpoint), _) if !self.changed => {
                Kept::LastStep { step: self.saved_step, checkpoint: checkpoint.clone() }
            }
            (_, Err(error)) => self.before(error.to_string()),
            (_, Ok(())) => self.before("nothing was saved".to_owned()),
        }
    }

    fn before(&self, reason: String) -> Kept {
        match &self.saved {
            Some(checkpoint) => {
                Kept::Before { step: self.saved_step, checkpoint: checkpoint.clone(), reason }
            }
            None => Kept::Nothing { reason },
        }
    }

    /// The run's own log shall say how it ended too. The caller is told by the error itself.
    pub(super) fn log_failure(&mut self, error: &TrainError) {
        let event = Event::Error { message: error.to_string() };
        // Where the log cannot be written, that is no news beside the error that ended the run.
        let _ = self.run.log(&event);
    }
}

/// The run directory of a training that failed, and what is in it.
pub(super) type Left = (PathBuf, Kept);

impl Training<'_> {
    /// What is left where another rank ran out of memory: nothing can be saved without it.
    pub(super) fn left(&self) -> Left {
        (
            self.run.path().to_owned(),
            self.before("the ranks cannot save without the one that failed".to_owned()),
        )
    }
}

/// Adds to the error of another rank what it cannot know.
pub(super) fn of_rank(error: TrainError, left: Option<Left>) -> TrainError {
    let TrainError::Rank { rank, device, mut source } = error else { return error };
    if let TrainError::OutOfMemory(error) = &mut *source
        && let Some(report) = &mut error.report
    {
        (report.run_dir, report.kept) = left.unzip();
    }
    TrainError::Rank { rank, device, source }
}

/// The same for an error before there was a training: while the model was made, or its state restored.
pub(super) fn at_start(
    session: &Session,
    error: TrainError,
    log: Option<&MemoryLog>,
    run: &RunDirectory,
    checkpoint: Option<&Checkpoint>,
) -> TrainError {
    let TrainError::OutOfMemory(mut error) = error else { return error };
    let kept = match checkpoint {
        Some(checkpoint) => Kept::Before {
            step: checkpoint.progress().step,
            checkpoint: PathBuf::from(checkpoint.path()),
            reason: "nothing was trained".to_owned(),
        },
        None => Kept::Nothing { reason: "nothing was trained".to_owned() },
    };
    let known = Circumstances {
        subject: Subject::Training,
        device: 0,
        seen: log.and_then(|log| log.seen(&error)),
        reserved_bytes: None,
        run: Some((run.path().to_owned(), kept)),
        directory: Some(run.path().join(REPORT)),
    };
    explain(session, &mut error, known);
    TrainError::OutOfMemory(error)
}
