//! A failed training keeps what can be kept, and explains the error. One that will not fit is adapted.

use std::path::PathBuf;

use oomph_config::OnOom;
use oomph_core::{Phase, current_device};

use oomph_advice::out_of_memory::{self, Advice, Kept, OomContext, OutOfMemory};
use oomph_engine::{exhausted::Shortage, session::Session};
use oomph_runs::{Adapted, Event, RunDirectory, state::Checkpoint};

use super::training::Training;
use crate::{TrainError, memory_log::MemoryLog};

/// The directory of out-of-memory reports, within a run directory.
pub(super) const REPORT: &str = "out-of-memory";

impl Training<'_> {
    /// Adds the step, the bytes in use and the kept checkpoint to an error.
    pub(super) fn explain(&mut self, error: TrainError) -> TrainError {
        // If the checkpoint cannot be written, the state is new again, and `keep` tries once more.
        let _ = self.finish_writing();
        if let TrainError::LossScale { error, .. } = error {
            return TrainError::LossScale { error, checkpoint: self.saves.last.clone() };
        }
        let error = error.explained(self.session, |error, device| Some(self.known(error, device)));
        if self.session.config.memory.on_oom == OnOom::Adapt
            && self.stop.reason().is_none()
            && let Some(oom) = error.out_of_memory()
            && let Some(advice) = oom.goes_on_with()
        {
            let adapted = adapted(advice, self.progress.step, oom.to_string());
            // The error matters more than a log that cannot be written.
            let _ = self.log.event(Event::Adapted(adapted));
        }
        error
    }

    /// What this training knows of an out-of-memory error on its device `device`.
    fn known(&mut self, error: &mut OutOfMemory, device: usize) -> OomContext {
        // A finished step tells its number, and leaves all ranks between two steps.
        let is_finished = error.step.is_some();
        if !is_finished {
            let in_step = error.phase.is_in_step() && !error.in_evaluation;
            error.exhausted.at_step(self.progress.step + usize::from(in_step));
        }
        // This thread works for the first device.
        let on = current_device() + device;
        OomContext {
            device,
            seen: self.memory.log.as_ref().and_then(|log| log.seen_on(on, error)),
            reserved_bytes: self.memory.gauge.reserved_bytes,
            run: Some((self.log.run.path().to_owned(), self.keep(error, is_finished))),
            // Another training may be at the path by now.
            directory: self.log.run.check().is_ok().then(|| self.log.run.path().join(REPORT)),
            ..OomContext::default()
        }
    }

    /// Saves the state of the last finished step, unless the device itself failed. `is_finished`: the step was, in which memory
    /// ran out.
    fn keep(&mut self, error: &OutOfMemory, is_finished: bool) -> Kept {
        if matches!(error.shortage, Shortage::Device { .. }) {
            return self.saves.before("the state on a failed device is not trusted".to_owned());
        }
        // In the middle of a step the other ranks wait for this one. Between steps they take commands.
        let is_between = is_finished || error.phase == Phase::Checkpoint && !error.in_evaluation;
        if !self.session.replicas.is_alone() && !is_between {
            return self.saves.before("several ranks save nothing in the middle of a step".to_owned());
        }
        if self.progress.step == 0 {
            return Kept::Nothing { reason: "no step was finished".to_owned() };
        }
        // The step's crossing of the limit is known. Saving may cross the limit again.
        oomph_memory::take_crossing();
        let saved = self.save().and_then(|()| self.finish_writing());
        match (&self.saves.last, saved) {
            (Some(checkpoint), _) if !self.saves.changed => {
                Kept::LastStep { step: self.saves.step, checkpoint: checkpoint.clone() }
            }
            (_, Err(error)) => self.saves.before(error.to_string()),
            (_, Ok(())) => self.saves.before("nothing was saved".to_owned()),
        }
    }
}

/// Adds to the error of another rank what is left of the run.
pub(super) fn of_rank(mut error: TrainError, left: Option<(PathBuf, Kept)>) -> TrainError {
    if let TrainError::Rank { source, .. } = &mut error
        && let TrainError::OutOfMemory(error) = &mut **source
        && let Some(report) = &mut error.report
    {
        (report.run_dir, report.kept) = left.unzip();
    }
    error
}

/// Explains an out-of-memory error while the model was made or restored.
pub(super) fn at_start(
    session: &Session,
    error: TrainError,
    log: Option<&MemoryLog>,
    run: &RunDirectory,
    checkpoint: Option<&Checkpoint>,
) -> TrainError {
    let reason = "nothing was trained".to_owned();
    let kept = match checkpoint {
        Some(checkpoint) => Kept::Before {
            step: checkpoint.progress().step,
            checkpoint: checkpoint.path().to_owned(),
            reason,
        },
        None => Kept::Nothing { reason },
    };
    error.explained(session, |error, _| {
        Some(OomContext {
            seen: log.and_then(|log| log.seen(error)),
            run: Some((run.path().to_owned(), kept)),
            directory: Some(run.path().join(REPORT)),
            ..OomContext::default()
        })
    })
}

/// The event of a training that takes an advice.
fn adapted(advice: &Advice, step: usize, because: String) -> Adapted {
    Adapted {
        step,
        settings: advice.settings.iter().cloned().collect(),
        planned_peak_bytes: advice.planned_peak_bytes,
        because,
    }
}

/// Changes a session to fit, if its plan does not and `memory.on_oom = "adapt"`. Only levers that keep the mathematics are
/// used. `None` where nothing changes.
///
/// # Errors
/// Where no such change makes the training fit.
pub fn adapt(session: &Session) -> Result<Option<(Session, Adapted)>, TrainError> {
    let adaptation = out_of_memory::adapt(session)?;
    Ok(adaptation.map(|found| {
        let adapted = adapted(&found.advice, 0, found.because);
        (found.session, adapted)
    }))
}
