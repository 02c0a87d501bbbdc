//! The state of a training, and saving it.

use std::{path::PathBuf, time::Instant};

use oomph_core::{Phase, phase};
use oomph_memory::{Account, charge};
use oomph_model::Carried;

use super::Training;
use crate::{
    Event, TrainError, device_failure,
    event::Saved,
    out_of_memory,
    parallel::Order,
    state::{About, HostTensor, StateError, TrainState, model_record},
};

impl Training<'_> {
    /// Saves, unless the last checkpoint has it all already.
    pub(super) fn save(&mut self, best: bool) -> Result<(), TrainError> {
        let _phase = phase(Phase::Checkpoint);
        // What a device that failed holds is not saved.
        device_failure::settle(&self.session.device)?;
        self.log()?;
        if !self.changed && !best {
            return Ok(());
        }
        self.stopwatch.pause();
        let start = Instant::now();
        self.progress.seconds = self.earlier_seconds + self.started.elapsed().as_secs_f64();
        let path = charge(Account::Host, || -> Result<PathBuf, TrainError> {
            let state = self.state()?;
            let keep_last = self.session.config.run.keep_last;
            let about = About { config: &self.config, source: Some(&self.source) };
            Ok(self.run.checkpoints().save(&state, about, best, keep_last)?)
        })?;
        self.last_save = Instant::now();
        self.changed = false;
        self.saved = Some(path.clone());
        self.saved_step = self.progress.step;
        self.tell(Event::Checkpoint(Saved {
            step: self.progress.step,
            checkpoint: path,
            save_seconds: start.elapsed().as_secs_f64(),
        }))?;
        self.stopwatch.resume();
        out_of_memory::check()
    }

    /// # Errors
    /// [`TrainError::NonFiniteParameter`]: the loss of the last step was finite, but what the step made is not.
    fn state(&self) -> Result<TrainState, TrainError> {
        let model = model_record(&self.stepper.model)?;
        let broken = model.iter().find(|(_, tensor)| tensor.values.iter().any(|value| !value.is_finite()));
        if let Some((parameter, _)) = broken {
            return Err(TrainError::NonFiniteParameter {
                step: self.progress.step,
                parameter: parameter.clone(),
                lr: self.schedule.lr(self.progress.step.saturating_sub(1)),
                checkpoint: self.saved.clone(),
            });
        }
        let optimizer = self.stepper.optimizer.record()?;
        let carried = self.carried()?;
        let carried = carried.iter().flat_map(Carried::tensors);
        let carried = carried.map(|(name, tensor)| Ok((name.clone(), HostTensor::from_tensor(tensor)?)));
        let carried = carried.collect::<Result<_, StateError>>()?;
        let (progress, loss_scale) = (self.progress.clone(), self.stepper.loss_scale);
        Ok(TrainState { progress, model, optimizer, loss_scale, carried })
    }

    /// What recurrent layers carry, of all replicas.
    fn carried(&self) -> Result<Option<Carried>, TrainError> {
        let (replicas, Some(carried)) = (&self.session.replicas, &self.stepper.carried) else {
            return Ok(None);
        };
        replicas.order(Order::Carried)?;
        replicas.gather_carried(carried).map(Some)
    }
}
