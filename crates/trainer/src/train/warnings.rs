//! Warnings before the first step.

use oomph_config::Sharing;
use oomph_core::Bytes;
use oomph_engine::session::Session;
use oomph_model::Stages;

use crate::{device::has_nccl, lr_schedule::steps, open::are_different_gpus};

/// Frozen stages of a new model without weights stay random.
pub(super) fn frozen_without_weights(model: &Stages) -> Option<String> {
    (model.frozen_elements() > 0)
        .then(|| "`model.freeze` keeps stages randomly initialised, since `model.weights` is not set".into())
}

/// A frozen stage changes where it computes with the parameters of a trained stage.
pub(super) fn frozen_but_trained(model: &Stages) -> Vec<String> {
    let names: Vec<&str> = model.names().collect();
    let trained = |(_, lender): &(usize, usize)| !model.is_frozen(*lender);
    let pairs = model.borrowers().into_iter().filter(|(borrower, _)| model.is_frozen(*borrower));
    let message = |(borrower, lender): (usize, usize)| {
        let (borrower, lender) = (names[borrower], names[lender]);
        format!("`{borrower}` is frozen, but computes with parameters of `{lender}`, which are trained")
    };
    pairs.filter(trained).map(message).collect()
}

/// Different GPUs could all-reduce with NCCL, but NCCL is missing.
pub(super) fn without_nccl(session: &Session) -> Option<String> {
    let gpus = session.devices_here();
    let is_wanted = matches!(session.config.device.sharing, Sharing::Ddp(_))
        && gpus.len() > 1
        && are_different_gpus(gpus);
    (is_wanted && !has_nccl()).then(|| {
        "NCCL was not found, so gradients travel through host memory: `oomph doctor` shows what is missing".into()
    })
}

/// The planned peak exceeds the limit.
pub(super) fn over_limit(session: &Session, planned: Bytes) -> Option<String> {
    let limit = session.limit_bytes.filter(|limit| planned > *limit)?;
    Some(format!("a step will need {planned}, more than the limit of {limit}: `oomph plan` shows what fits"))
}

/// All steps of the run are done.
pub(super) fn already_done(session: &Session, done: usize) -> Option<String> {
    let steps = steps(session);
    (done >= steps).then(|| {
        format!(
            "the run is already at step {done} of {steps}: raise `train.epochs` or `train.steps` to train on"
        )
    })
}
