//! A failed training keeps what can be kept, and explains the error.

use std::path::PathBuf;

use oomph_config::OnOom;
use oomph_core::{Phase, current_device};

use oomph_advice::out_of_memory::{Kept, OomContext, OutOfMemory, Subject, explain};
use oomph_engine::{exhausted::Shortage, session::Session};
use oomph_runs::{Event, RunDirectory, state::Checkpoint};

use super::training::Training;
use crate::{TrainError, adapted::adapted, memory_log::MemoryLog};

/// The directory of out-of-memory reports, within a run directory.
pub(super) const REPORT: &str = "out-of-memory";

impl Training<'_> {
    /// Adds the step, the bytes in use and the kept checkpoint to an error.
    pub(super) fn explain(&mut self, error: TrainError) -> TrainError {
        match error {
            TrainError::LossScale { step, scale, lr, .. } => {
                TrainError::LossScale { step, scale, lr, checkpoint: self.saves.last.clone() }
            }
            error => error.with_explained(|error, device| self.explained(error, device)),
        }
    }

    /// Explains an out-of-memory error on device `device` of this training.
    fn explained(&mut self, mut error: Box<OutOfMemory>, device: usize) -> Box<OutOfMemory> {
        // A step counts once it is done. A step that failed in the optimizer was counted.
        let in_step = error.phase.is_in_step() && !error.in_evaluation;
        error.exhausted.at_step(self.progress.step + usize::from(in_step));
        // This thread works for the first device.
        let on = current_device() + device;
        let seen = self.memory.log.as_ref().and_then(|log| log.seen_on(on, &error));
        let known = OomContext {
            subject: Subject::Training,
            device,
            seen,
            reserved_bytes: self.memory.gauge.reserved_bytes(),
            run: Some((self.log.run.path().to_owned(), self.keep(&error))),
            directory: Some(self.log.run.path().join(REPORT)),
        };
        explain(self.session, &mut error, known);
        if self.session.config.memory.on_oom == OnOom::Adapt
            && self.stop.reason().is_none()
            && let Some(advice) = error.goes_on_with()
        {
            let adapted = adapted(advice, self.progress.step, error.to_string());
            // The error matters more than a log that cannot be written.
            let _ = self.log.event(Event::Adapted(adapted));
        }
        error
    }

    /// Saves the state of the last finished step, unless the device itself failed.
    fn keep(&mut self, error: &OutOfMemory) -> Kept {
        if matches!(error.shortage, Shortage::Device { .. }) {
            return self.saves.before("the state on a failed device is not trusted".to_owned());
        }
        // In the middle of a step the other ranks wait for this one. Between steps they take commands.
        let is_between = matches!(error.phase, Phase::Step | Phase::Checkpoint) && !error.in_evaluation;
        if !self.session.replicas.is_alone() && !is_between {
            return self.saves.before("several ranks save nothing in the middle of a step".to_owned());
        }
        if self.progress.step == 0 {
            return Kept::Nothing { reason: "no step was finished".to_owned() };
        }
        // The step's crossing of the limit is known. Saving may cross the limit again.
        oomph_memory::take_crossing();
        let saved = self.save(false);
        match (&self.saves.last, saved) {
            (Some(checkpoint), _) if !self.saves.changed => {
                Kept::LastStep { step: self.saves.step, checkpoint: checkpoint.clone() }
            }
            (_, Err(error)) => self.saves.before(error.to_string()),
            (_, Ok(())) => self.saves.before("nothing was saved".to_owned()),
        }
    }
}

/// What a failed training left.
pub(super) struct Left {
    run_dir: PathBuf,
    kept: Kept,
}

impl Left {
    /// What is left where another rank ran out of memory: saving needs all ranks.
    pub(super) fn of(training: &Training<'_>) -> Self {
        let reason = "the ranks cannot save without the failed rank".to_owned();
        Self { run_dir: training.log.run.path().to_owned(), kept: training.saves.before(reason) }
    }
}

/// Adds to the error of another rank what is left of the run.
pub(super) fn of_rank(error: TrainError, left: Option<Left>) -> TrainError {
    let TrainError::Rank { rank, device, mut source } = error else { return error };
    if let TrainError::OutOfMemory(error) = &mut *source
        && let Some(report) = &mut error.report
    {
        (report.run_dir, report.kept) = left.map(|Left { run_dir, kept }| (run_dir, kept)).unzip();
    }
    TrainError::Rank { rank, device, source }
}

/// Explains an out-of-memory error while the model was made or restored.
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
    let known = OomContext {
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
