//! Warnings before the first step.

use oomph_advice::planning::PlannedCut;
use oomph_config::{DeviceName, Sharing};
use oomph_core::Bytes;
use oomph_engine::session::{Session, steps};
use oomph_model::Stages;
use oomph_parallel::PipelineOrder;

use crate::{
    device::has_nccl,
    open::{are_different_gpus, rows_of},
};

/// Frozen parameters of a new model without weights stay random.
pub(super) fn frozen_without_weights(session: &Session, model: &Stages) -> Option<String> {
    let (key, kept) = match session.architecture.lora() {
        Some(_) => ("model.lora", "weights"),
        None => ("model.freeze", "stages"),
    };
    (model.frozen_elements() > 0)
        .then(|| format!("`{key}` keeps {kept} randomly initialised, since `model.weights` is not set"))
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
    let more = planned.saturating_sub(limit);
    Some(format!(
        "a step will need {planned}, {more} more than the limit of {limit}: `oomph plan` shows what fits"
    ))
}

/// `memory.limit` is larger than what the limits of the process leave.
pub(super) fn lowered_limit(session: &Session) -> Option<String> {
    let asked = session.config.memory.limit?;
    let limit = session.limit_bytes.filter(|limit| *limit < asked)?;
    Some(format!("`memory.limit` of {asked} is lowered to {limit}: `ulimit -v` or `-d` leaves no more"))
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

/// Layouts that work, but waste time.
pub(super) fn of_layout(session: &Session, cut: Option<&PlannedCut>) -> Vec<String> {
    let cut = cut.and_then(|cut| few_micro_batches(session, cut));
    [uneven_shares(session), unlike_devices(session), cut].into_iter().flatten().collect()
}

/// The slowest rank sets the pace, and ranks with one more sample are slower.
fn uneven_shares(session: &Session) -> Option<String> {
    let (world, batch) = (session.world_size(), session.config.train.batch);
    let more = batch % world;
    if more == 0 || !matches!(session.config.device.sharing, Sharing::Ddp(_)) {
        return None;
    }
    let least = batch / world;
    let ranks =
        (0..world).filter(|rank| rows_of(session, *rank, world).len() > least).map(|rank| rank.to_string());
    let ranks = ranks.collect::<Vec<_>>().join(", ");
    let (ranks, verb) =
        if more == 1 { (format!("rank {ranks}"), "has") } else { (format!("ranks {ranks}"), "have") };
    Some(format!(
        "`train.batch` (={batch}) is not a multiple of {world} devices: {ranks} {verb} {} samples, the others {least} \
         and wait",
        least + 1
    ))
}

/// All replicas wait for the slowest in each step.
fn unlike_devices(session: &Session) -> Option<String> {
    let devices = session.devices_here();
    (DeviceName::are_mixed(devices) && session.config.device.sharing.is_of_replicas()).then(|| {
        format!(
            "the CPU and GPUs (`{}`) have equal shares of each batch, so every step waits for the slowest",
            session.device_names()
        )
    })
}

/// A pipeline with fewer micro-batches than devices is never full.
fn few_micro_batches(session: &Session, cut: &PlannedCut) -> Option<String> {
    let (devices, micro_batches) = (cut.parts.len(), cut.micro_batches);
    let is_pipeline = session.pipeline_order().is_some_and(|order| order != PipelineOrder::Sequential);
    if !is_pipeline || micro_batches >= devices {
        return None;
    }
    let fix = match cut.micro_batch {
        1 => "raise `train.batch`, or name fewer devices",
        _ => "lower `memory.micro_batch`, or name fewer devices",
    };
    let are =
        if micro_batches == 1 { "1 micro-batch is" } else { &format!("{micro_batches} micro-batches are") };
    Some(format!(
        "{are} too few for {devices} devices, which will be idle for about {:.0} % of forward and backward: {fix}",
        cut.trace.bubble() * 100.0
    ))
}
