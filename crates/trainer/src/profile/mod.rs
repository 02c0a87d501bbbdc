//! A few steps of a training with every allocation recorded, and the plan of the same steps.

mod batches;
mod device;
mod error;
mod measure;

use std::path::PathBuf;

use oomph_config::DeviceName;
use oomph_core::Bytes;
use oomph_memory::{Account, SpanKind, Timeline, charge};

use crate::{Observer, OutOfMemory, PlanOptions, Session, TrainError, planning::plan_steps};
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
    /// What was in use over the steps behind the warm-up and the evaluation. Where memory ran out before, over all of
    /// it.
    pub measured: Timeline,
    /// The same steps, predicted.
    pub planned: Timeline,
    /// Seconds of each of these steps.
    pub step_seconds: Vec<f64>,
    /// The most that was held on the host behind a step, the recording left out.
    pub host_bytes: Bytes,
    /// What ended the profile before its time: the limit was crossed.
    pub out_of_memory: Option<OutOfMemory>,
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
    let device = session.config.device.devices[0];
    if device != DeviceName::Cpu {
        return Err(ProfileError::Device { device });
    }
    if !oomph_memory::is_installed() {
        return Err(ProfileError::NoMeter);
    }
    session.check_training().map_err(TrainError::from)?;
    let Measured { timeline, warmup, step_seconds, host_bytes, out_of_memory } =
        charge(Account::Device, || measure(session, &options, observer))?;
    if timeline.spans_of(SpanKind::Step).next().is_none() {
        return Err(ProfileError::NoSteps);
    }
    let planned = planned(session, &timeline, warmup)?;
    Ok(Profile { measured: timeline, planned, step_seconds, host_bytes, out_of_memory })
}

/// The plan of the steps and evaluation batches that `measured` has, under the same names.
fn planned(session: &Session, measured: &Timeline, warmup: usize) -> Result<Timeline, TrainError> {
    let names: Vec<&str> =
        measured.spans_of(SpanKind::Step).map(|span| measured.names.text(span.name)).collect();
    let eval_batches = names.iter().filter(|name| name.starts_with("eval")).count();
    // The first step differs from the second; those behind it are like the second.
    let before = warmup.min(1);
    let mut plan =
        plan_steps(session, PlanOptions::default(), before + names.len() - eval_batches, eval_batches)?;
    let first = plan.spans_of(SpanKind::Step).nth(before).map_or(0, |span| span.start);
    plan = plan.since(first.saturating_sub(1));
    let steps = plan.spans.iter_mut().filter(|span| span.kind == SpanKind::Step);
    for (span, name) in steps.zip(names) {
        span.name = plan.names.of(name);
    }
    Ok(plan)
}
