use std::time::Instant;

use oomph_config::DeviceName;
use oomph_core::{Bytes, Phase, phase};
use oomph_memory::{Account, charge};
use oomph_model::{Carried, Named};

use oomph_engine::{
    HostTensor, device_failure, exhausted,
    record::carried_record,
    step::state::{StepperState, is_sharded, state},
};
use oomph_runs::{
    Event, Saved,
    state::{About, AverageState, SavedCheckpoint, TrainState},
};

use super::{
    training::Training,
    writing::{Writing, Written},
};
use crate::{
    TrainError,
    ranks::{RankCommand, command},
    steadier::Steadier,
};

impl Training<'_> {
    /// Saves a checkpoint, unless the state is unchanged since the last one: copies the state to the host, and begins to write
    /// it. [`finish_writing`](Self::finish_writing) ends that.
    ///
    /// # Errors
    /// Those of the checkpoint before, if it is still being written. Also where nothing is to be saved, but the run directory is
    /// gone with the checkpoints before.
    pub(super) fn save(&mut self) -> Result<(), TrainError> {
        let _phase = phase(Phase::Checkpoint);
        // The state on a failed device is not saved.
        device_failure::settle(&self.session.device)?;
        // One copy of the state at a time.
        self.finish_writing()?;
        // A line of metrics is not due here: where a run is saved or stopped must not show in its lines.
        self.read_losses()?;
        if !self.saves.changed {
            return Ok(self.log.run.check()?);
        }
        self.clock.stopwatch.pause();
        let start = Instant::now();
        self.progress.seconds = self.clock.earlier_seconds + self.clock.started.elapsed().as_secs_f64();
        let has_room = charge(Account::Host, || {
            let state = self.state()?;
            let has_room = has_room_beside(self, state.largest_tensor());
            // With the log, which the run flushes: what is in a checkpoint was told before.
            self.log.flush()?;
            let (config, source) = (self.config.clone(), self.source.clone());
            let keep_last = self.session.config.run.keep_last;
            let writing = Writing::begin(self.log.run.clone(), self.progress.step, start, move |run| {
                let about = About { config: &config, source: Some(&source) };
                run.save(state, about, keep_last)
            })?;
            self.saves.writing = Some(writing);
            Ok::<_, TrainError>(has_room)
        })?;
        self.saves.at = Instant::now();
        self.saves.changed = false;
        if !has_room {
            self.finish_writing()?;
        }
        self.clock.stopwatch.resume();
        Ok(exhausted::check()?)
    }

    /// Waits for the checkpoint that is being written, if there is one, and reports it.
    ///
    /// # Errors
    /// Where it could not be written. The state counts as changed then.
    pub(super) fn finish_writing(&mut self) -> Result<(), TrainError> {
        let Some(writing) = self.saves.writing.take() else { return Ok(()) };
        let _phase = phase(Phase::Checkpoint);
        let step = writing.step();
        let written = self.clock.stopwatch.stopped(|| charge(Account::Host, || writing.finish()));
        let Written { checkpoint: SavedCheckpoint { path, warnings }, seconds, paused_seconds } =
            written.inspect_err(|_| self.saves.changed = true)?;
        self.saves.last = Some(path.clone());
        self.saves.step = step;
        let saved = Saved { step, checkpoint: path, save_seconds: seconds, paused_seconds };
        self.log.event(Event::Checkpoint(saved))?;
        self.warn_of_disk(warnings)?;
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
    /// [`TrainError::NonFiniteState`] where the last step had a finite loss, but made a value that is not finite.
    fn state(&self) -> Result<TrainState, TrainError> {
        if is_sharded(&self.driver.stepper) {
            command(&self.session.replicas, RankCommand::State)?;
        }
        let StepperState { model, optimizer, average } = state(&self.driver.stepper)?;
        self.check_finite("the parameter", &model)?;
        self.check_finite("the optimizer state", &optimizer.tensors)?;
        let broken = optimizer.packed.iter().find(|(_, packed)| !packed.is_finite());
        broken.map_or(Ok(()), |(name, _)| Err(non_finite(self, "the optimizer state", name)))?;
        let carried = carried_record(&carried(self)?)?;
        self.check_finite("the carried state", &carried)?;
        let (progress, loss_scale) = (self.progress.clone(), self.driver.stepper.loss_scale);
        let average = average.map(|(model, updates)| -> Result<_, TrainError> {
            self.check_finite("the average of the parameter", &model)?;
            Ok(AverageState { model, updates })
        });
        let average = average.transpose()?;
        Ok(TrainState { progress, model, optimizer, loss_scale, carried, average })
    }

    fn check_finite(&self, part: &'static str, tensors: &Named<HostTensor>) -> Result<(), TrainError> {
        least_broken(tensors).map_or(Ok(()), |name| Err(non_finite(self, part, name)))
    }
}

/// Whether the steps to come have room in host memory beside the copy of the state, of which `bytes` are encoded at once.
fn has_room_beside(training: &Training<'_>, bytes: Bytes) -> bool {
    let devices = &training.session.config.device.devices;
    let on_host = devices.iter().filter(|device| **device == DeviceName::Cpu).count() as u64;
    let steps = training.memory.planned_peak_bytes.get().saturating_mul(on_host);
    // What is free, and what the devices hold already.
    let free = oomph_memory::default_limit();
    free.is_none_or(|free| free.bytes.get() >= steps.saturating_add(bytes.get()))
}

/// The carried state of all replicas; empty without one.
fn carried(training: &Training<'_>) -> Result<Carried, TrainError> {
    let Some(carried) = &training.driver.stepper.carried else { return Ok(Carried::new()) };
    command(&training.session.replicas, RankCommand::Carried)?;
    Ok(training.session.replicas.gather_carried(carried)?)
}

/// The error of a state that is not finite.
fn non_finite(training: &Training<'_>, part: &'static str, name: &str) -> TrainError {
    TrainError::NonFiniteState {
        step: training.progress.step,
        part,
        name: name.to_owned(),
        lr: training.driver.last_lr,
        checkpoint: training.saves.last.clone(),
        steadier: Steadier::of(&training.session.config),
    }
}

/// The tensor with the smallest share of values that are not finite; `None` if all are finite. A broken value spreads, so
/// the share is smallest where it began.
fn least_broken(tensors: &Named<HostTensor>) -> Option<&String> {
    let broken = tensors.iter().filter_map(|(name, tensor)| {
        let count = tensor.values.iter().filter(|value| !value.is_finite()).count();
        (count > 0).then(|| (count as f64 / tensor.values.len() as f64, name))
    });
    broken.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_broken_tensors_the_one_with_the_fewest_broken_values_is_named() {
        let tensor = |values: &[f32]| HostTensor { shape: vec![values.len()], values: values.to_vec() };
        let mut tensors: Named<HostTensor> = [
            ("all".to_owned(), tensor(&[f32::NAN, f32::NAN])),
            ("one".to_owned(), tensor(&[1.0, f32::INFINITY, 0.0])),
            ("sound".to_owned(), tensor(&[1.0])),
        ]
        .into();
        assert_eq!(least_broken(&tensors).map(String::as_str), Some("one"));
        tensors.retain(|name, _| name == "sound");
        assert_eq!(least_broken(&tensors), None);
    }
}
