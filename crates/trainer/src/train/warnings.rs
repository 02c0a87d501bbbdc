//! What somebody should know of a training before it begins.

use oomph_config::Sharing;

use super::Training;
use crate::{
    Event, TrainError,
    parallel::{are_different_gpus, has_nccl},
};

impl Training<'_> {
    /// What is frozen in a new model without weights stays random, which nobody wants.
    pub(super) fn frozen_as_drawn(&self) -> Option<String> {
        let is_new = self.saved.is_none();
        (is_new && self.stepper.model.frozen_elements() > 0).then(|| {
            "`model.freeze` keeps stages as they were drawn: there is no `model.weights` to start from".into()
        })
    }

    /// A frozen stage that computes with a trained stage's parameters is not what was frozen: those train on.
    pub(super) fn frozen_but_trained(&self) -> Vec<String> {
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

    /// GPUs that could sum their gradients themselves, were there what they do it with.
    pub(super) fn without_nccl(&self) -> Option<String> {
        let gpus = self.session.devices_here();
        let is_wanted = matches!(self.session.config.device.sharing, Sharing::Ddp(_))
            && gpus.len() > 1
            && are_different_gpus(gpus);
        (is_wanted && !has_nccl()).then(|| {
            "NCCL was not found, so that gradients travel through host memory: `oomph doctor` says what is missing"
                .into()
        })
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
}
