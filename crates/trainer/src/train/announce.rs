//! What a training says of itself before its first step.

use oomph_core::Split;

use super::Training;
use crate::{Event, TrainError, backend, event::Started, run::environment, state::Checkpoint};

impl Training<'_> {
    /// Writes down what the run is, and tells of it and of what somebody should know.
    pub(super) fn describe(
        &mut self,
        checkpoint: Option<&Checkpoint>,
        warnings: Vec<String>,
    ) -> Result<(), TrainError> {
        // What a crash or a full disk left there may be what keeps the next lines from being written.
        self.run.checkpoints().clear_leftovers()?;
        let device = self.session.device_names();
        let weights = self.stepper.weights.take();
        self.run.describe(&self.config, &environment(&device, weights.as_ref()))?;
        self.begin_event_file()?;
        self.announce(checkpoint, device)?;
        let notices = match weights {
            Some(weights) => weights.notices,
            None => self.frozen_as_drawn().into_iter().collect(),
        };
        let others = self.frozen_but_trained().into_iter().chain(self.without_nccl());
        for message in warnings.into_iter().chain(notices).chain(others) {
            self.tell(Event::Warning { message })?;
        }
        Ok(())
    }

    fn announce(&mut self, checkpoint: Option<&Checkpoint>, device: String) -> Result<(), TrainError> {
        let session = self.session;
        let spec = session.spec();
        let started = Started {
            run_dir: self.run.path().to_owned(),
            model: session.architecture.name().to_owned(),
            parameters: self.stepper.model.trainable_elements(),
            frozen_parameters: self.stepper.model.frozen_elements(),
            weights: session.weights.clone().filter(|_| checkpoint.is_none()),
            source: session.source_name(),
            sample: format!("{}, {}", spec.input, spec.target),
            train_samples: session.source.len(Split::Train),
            test_samples: session.source.len(Split::Test),
            device,
            strategy: session.config.device.sharing.name(),
            world_size: session.world_size(),
            batch: session.config.train.batch,
            micro_batch: session.micro_batch(),
            policy: session.describe_policy(backend(session), session.limit_bytes),
            steps: session.steps(),
            steps_per_epoch: self.progress.batches_per_epoch,
            first_step: self.progress.step,
            resumed_from: checkpoint.map(|checkpoint| checkpoint.path().to_owned()),
            metered: oomph_memory::is_installed(),
            planned_peak_bytes: self.planned_peak_bytes,
            limit_bytes: session.limit_bytes,
            version: env!("CARGO_PKG_VERSION"),
        };
        self.tell(Event::Started(started))
    }
}
