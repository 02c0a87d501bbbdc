//! Warnings about how several devices share the work.

use oomph_advice::planning::PlannedCut;
use oomph_config::{DeviceName, Sharing};
use oomph_engine::session::Session;
use oomph_parallel::PipelineOrder;

use crate::open::rows_of;

/// Layouts that work, but waste time.
pub(super) fn warnings(session: &Session, cut: Option<&PlannedCut>) -> Vec<String> {
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
    let is_cpu = |device: &DeviceName| *device == DeviceName::Cpu;
    let is_mixed = devices.iter().any(is_cpu) && !devices.iter().all(is_cpu);
    (is_mixed && session.config.device.sharing.is_of_replicas()).then(|| {
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
