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
        for message in warnings.into_iter().chain(notices).chain(self.frozen_but_trained()) {
            self.tell(Event::Warning { message })?;
        }
        Ok(())
    }

    /// What is frozen in a new model without weights stays random, which nobody wants.
    fn frozen_as_drawn(&self) -> Option<String> {
        let is_new = self.saved.is_none();
        (is_new && self.stepper.model.frozen_elements() > 0).then(|| {
            "`model.freeze` keeps stages as they were drawn: there is no `model.weights` to start from".into()
        })
    }

    /// A frozen stage that computes with a trained stage's parameters is not what was frozen: those train on.
    fn frozen_but_trained(&self) -> Vec<String> {
        let model = &self.stepper.model;
        let names: Vec<&str> = model.names().collect();
        let trained = |(_, lender): &(usize, usize)| !model.is_frozen(*lender);
        let pairs = model.borrowers().into_iter().filter(|(borrower, _)| model.is_frozen(*borrower));
        let message = |(borrower, lender): (usize, usize)| {
            let (borrower, lender) = (names[borrower], names[lender]);
            format!("`{borrower}` is frozen, but computes with parameters of `{lender}`, which train on")
        };
        pairs.filter(trained).map(message).collect()
    }

    pub(super) fn warn_of_the_limit(&mut self) -> Result<(), TrainError> {
        let (planned, Some(limit)) = (self.planned_peak_bytes, self.session.limit_bytes) else {
            return Ok(());
        };
        if planned <= limit {
            return Ok(());
        }
        let message = format!(
            "a step will need {planned}, more than the limit of {limit}: `oomph plan` shows what fits"
        );
        self.tell(Event::Warning { message })
    }

    pub(super) fn warn_of_the_end(&mut self) -> Result<(), TrainError> {
        let (done, steps) = (self.progress.step, self.session.steps());
        if done < steps {
            return Ok(());
        }
        let message = format!(
            "the run is at step {done} of {steps} already: raise `train.epochs` or `train.steps` to train on"
        );
        self.tell(Event::Warning { message })
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
            strategy: session.config.device.sharing.name().filter(|_| !session.replicas.is_alone()),
            world_size: session.replicas.world_size(),
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
