//! A few steps of a training with every allocation recorded, and the plan of the same steps.

mod batches;
mod device;
mod error;
mod measure;

use std::path::PathBuf;

use oomph_config::DeviceName;
use oomph_core::Bytes;
use oomph_memory::{Account, SpanKind, Timeline, charge};

use crate::{
    Observer, OutOfMemory, PlanOptions, Session, TrainError,
    planning::{plan_parts, plan_replicas},
};
use measure::{Measured, measure};

pub(crate) use batches::Batches;
pub use device::{DeviceProfile, profile_device};
pub use error::ProfileError;

/// How long is profiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Steps that are not shown: the first ones make the optimizer's state and the backend's lasting buffers.
    pub warmup: usize,
    /// Steps that are.
    pub steps: usize,
    /// Batches of held-out data that are evaluated behind them, where the training evaluates.
    pub eval_batches: usize,
    /// Events that are kept, warm-up included; the newest ones.
    pub capacity: usize,
    /// Where a report of what runs out of memory is written, if it is to be.
    pub report: Option<PathBuf>,
}

impl Default for ProfileOptions {
    /// Two steps to warm up, five that are shown, two batches of evaluation, and a million events (40 MiB).
    fn default() -> Self {
        Self { warmup: 2, steps: 5, eval_batches: 2, capacity: 1_000_000, report: None }
    }
}

/// What a profile found.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The device, or the first of several.
    pub first: ProfiledDevice,
    /// Those behind it.
    pub others: Vec<ProfiledDevice>,
    /// Seconds of each of these steps.
    pub step_seconds: Vec<f64>,
    /// The most that was held on the host behind a step, the recording left out.
    pub host_bytes: Bytes,
    /// What ended the profile before its time: the limit was crossed.
    pub out_of_memory: Option<OutOfMemory>,
}

/// What a profile found on one device.
#[derive(Clone, Debug)]
pub struct ProfiledDevice {
    /// The first and the last of the stages that it has, where the model is cut.
    pub stages: Option<[String; 2]>,
    /// What was in use over the steps behind the warm-up and the evaluation, and what the device did. Where memory ran
    /// out before, over all of it.
    pub measured: Timeline,
    /// The same steps, predicted.
    pub planned: Timeline,
}

impl Profile {
    /// Each device, in their order.
    pub fn devices(&self) -> impl Iterator<Item = &ProfiledDevice> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// Trains for some steps, evaluates some batches, and records every allocation meanwhile. Nothing is saved.
///
/// A step or evaluation that crosses the limit ends the profile and is no error of it: what led there is what it shows.
///
/// # Errors
/// Training's own, and where allocations cannot be recorded.
pub fn profile(
    session: &Session,
    options: ProfileOptions,
    observer: &mut dyn Observer,
) -> Result<Profile, ProfileError> {
    let devices = &session.config.device.devices;
    if let Some(device) = devices.iter().find(|device| **device != DeviceName::Cpu) {
        return Err(ProfileError::Device { device: *device });
    }
    if !oomph_memory::is_installed() {
        return Err(ProfileError::NoMeter);
    }
    session.check_training().map_err(TrainError::from)?;
    let Measured { timelines, warmup, step_seconds, host_bytes, out_of_memory } =
        charge(Account::Device, || measure(session, &options, observer))?;
    let has_step = |timeline: &Timeline| timeline.spans_of(SpanKind::Step).next().is_some();
    if !timelines.first().is_some_and(has_step) {
        return Err(ProfileError::NoSteps);
    }
    let mut found = planned(session, timelines, warmup)?.into_iter();
    let first = found.next().ok_or(ProfileError::NoSteps)?;
    Ok(Profile { first, others: found.collect(), step_seconds, host_bytes, out_of_memory })
}

/// Each device with its plan of the steps and evaluation batches that were measured, under the same names.
fn planned(
    session: &Session,
    timelines: Vec<Timeline>,
    warmup: usize,
) -> Result<Vec<ProfiledDevice>, TrainError> {
    // The first step differs from the second; those behind it are like the second.
    let before = warmup.min(1);
    let names = timelines.first().map(step_names).unwrap_or_default();
    let eval_batches = names.iter().filter(|name| name.starts_with("eval")).count();
    let steps = before + names.len() - eval_batches;
    let parts = plan_parts(session, PlanOptions::default(), steps)?;
    let replica = match parts {
        Some(_) => None,
        // All replicas do the same.
        None => Some(plan_replicas(session, PlanOptions::default(), steps, eval_batches)?),
    };
    let mut parts = parts.into_iter().flatten();
    let found = timelines.into_iter().enumerate().filter_map(|(index, measured)| {
        let (stages, plan) = match &replica {
            Some(plans) => (None, plans[index.min(1)].clone()),
            None => parts.next().map(|part| (Some(part.names), part.timeline))?,
        };
        let planned = named_as(plan, &measured, before);
        Some(ProfiledDevice { stages, measured, planned })
    });
    Ok(found.collect())
}

fn step_names(timeline: &Timeline) -> Vec<String> {
    let steps = timeline.spans_of(SpanKind::Step);
    steps.map(|span| timeline.names.text(span.name).to_owned()).collect()
}

/// The plan of the steps that were measured: without those `before`, and with the names of the measurement.
fn named_as(plan: Timeline, measured: &Timeline, before: usize) -> Timeline {
    let first = plan.spans_of(SpanKind::Step).nth(before).map_or(0, |span| span.start);
    let mut plan = plan.since(first.saturating_sub(1));
    plan.device.clone_from(&measured.device);
    let steps = plan.spans.iter_mut().filter(|span| span.kind == SpanKind::Step);
    for (span, name) in steps.zip(step_names(measured)) {
        span.name = plan.names.of(&name);
    }
    plan
}
