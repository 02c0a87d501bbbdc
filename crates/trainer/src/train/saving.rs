use std::time::Instant;

use oomph_core::{Phase, phase};
use oomph_memory::{Account, charge};
use oomph_model::Carried;

use oomph_engine::{
    device_failure, exhausted,
    record::{carried_record, model_record},
};
use oomph_runs::{
    Event, Saved,
    state::{About, SavedCheckpoint, TrainState},
    tensorboard::EventFile,
};

use super::training::Training;
use crate::{
    TrainError,
    ranks::{RankCommand, command},
};

impl Training<'_> {
    /// Saves a checkpoint, unless the state is unchanged since the last one.
    ///
    /// # Errors
    /// Also where nothing is to be saved, but the run directory is gone with the checkpoints before.
    pub(super) fn save(&mut self) -> Result<(), TrainError> {
        let _phase = phase(Phase::Checkpoint);
        // The state on a failed device is not saved.
        device_failure::settle(&self.session.device)?;
        // A line of metrics is not due here: where a run is saved or stopped must not show in its lines.
        self.read_losses()?;
        if !self.saves.changed {
            return Ok(self.log.run.check()?);
        }
        self.clock.stopwatch.pause();
        let start = Instant::now();
        self.progress.seconds = self.clock.earlier_seconds + self.clock.started.elapsed().as_secs_f64();
        let SavedCheckpoint { path, warnings } = charge(Account::Host, || {
            let state = self.state()?;
            let keep_last = self.session.config.run.keep_last;
            // With the log, which the run flushes: what is in a checkpoint was told before.
            self.log.event_file.as_ref().map_or(Ok(()), EventFile::flush)?;
            let about = About { config: &self.config, source: Some(&self.source) };
            Ok::<_, TrainError>(self.log.run.save(&state, about, keep_last)?)
        })?;
        self.saves.at = Instant::now();
        self.saves.changed = false;
        self.saves.last = Some(path.clone());
        self.saves.step = self.progress.step;
        self.log.event(Event::Checkpoint(Saved {
            step: self.progress.step,
            checkpoint: path,
            save_seconds: start.elapsed().as_secs_f64(),
        }))?;
        self.warn_of_disk(warnings)?;
        self.clock.stopwatch.resume();
        Ok(exhausted::check()?)
    }

    /// Warns of what the system refused, once for each.
    pub(super) fn warn_of_disk(&mut self, warnings: Vec<String>) -> Result<(), TrainError> {
        for warning in warnings {
            if self.saves.warned.insert(warning.clone()) {
                self.log.warn(warning)?;
            }
        }
        Ok(())
    }

    /// Copies the state to the host.
    ///
    /// # Errors
    /// [`TrainError::NonFiniteParameter`] where the last step had a finite loss, but made a parameter that is not finite.
    fn state(&self) -> Result<TrainState, TrainError> {
        let model = model_record(&self.driver.stepper.model)?;
        let broken = model.iter().find(|(_, tensor)| tensor.values.iter().any(|value| !value.is_finite()));
        if let Some((parameter, _)) = broken {
            return Err(TrainError::NonFiniteParameter {
                step: self.progress.step,
                parameter: parameter.clone(),
                lr: self.driver.lr(self.progress.step.saturating_sub(1)),
                checkpoint: self.saves.last.clone(),
            });
        }
        let optimizer = self.driver.stepper.optimizer.record()?;
        let carried = carried_record(&self.carried()?)?;
        let (progress, loss_scale) = (self.progress.clone(), self.driver.stepper.loss_scale);
        Ok(TrainState { progress, model, optimizer, loss_scale, carried })
    }

    /// The carried state of all replicas; empty without one.
    fn carried(&self) -> Result<Carried, TrainError> {
        let Some(carried) = &self.driver.stepper.carried else { return Ok(Carried::new()) };
        command(&self.session.replicas, RankCommand::Carried)?;
        Ok(self.session.replicas.gather_carried(carried)?)
    }
}
