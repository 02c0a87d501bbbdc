//! Some steps of a training with every allocation recorded, and the plan of the same steps.

mod boundaries;
mod device;
mod measure;

use oomph_advice::{
    check_training,
    out_of_memory::OutOfMemory,
    planning::{PlanOptions, plan_parts, plan_replicas},
};
use oomph_config::DeviceName;
use oomph_core::{Bytes, Phase};
use oomph_engine::session::Session;
use oomph_memory::{Account, charge};
use oomph_runs::Observer;
use oomph_timeline::{SpanKind, Timeline};

use self::measure::{ProfileRun, measure};
use crate::{TrainError, fit::fitted};

pub use boundaries::PlannedBoundaries;
pub use device::{DeviceProfile, profile_device};
pub use measure::ProfileOptions;

/// Some steps of a training, measured and planned.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The first device.
    pub first: ProfiledDevice,
    /// The other devices.
    pub others: Vec<ProfiledDevice>,
    /// Seconds of each profiled step.
    pub step_seconds: Vec<f64>,
    /// The most host bytes after a step, the recording left out.
    pub host_bytes: Bytes,
    /// The error that ended the profile early, if memory ran out.
    pub out_of_memory: Option<OutOfMemory>,
}

impl Profile {
    /// All devices, in order.
    pub fn devices(&self) -> impl Iterator<Item = &ProfiledDevice> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// One device of a profile.
#[derive(Clone, Debug)]
pub struct ProfiledDevice {
    /// The first and the last stage of the device's model part, if the model is split.
    pub stages: Option<[String; 2]>,
    /// Bytes in use and the device's work, over the profiled steps and the evaluation. Where memory ran out in the
    /// warm-up, over the warm-up.
    pub measured: Timeline,
    /// The plan of the same steps.
    pub planned: Timeline,
}

/// Why a profile could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Training failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// Allocations of the device cannot be recorded.
    #[error("allocations on `{device}` cannot be recorded, only those on `cpu`")]
    Device {
        /// The requested device.
        device: DeviceName,
    },
    /// The meter, which sees allocations, is not installed.
    #[error("this program cannot record allocations: its meter is not installed")]
    NoMeter,
    /// The plan lacks a boundary that the step has.
    #[error("the plan has no boundary `{phase} {stage}`")]
    Unplanned {
        /// The phase.
        phase: Phase,
        /// The stage that ended; empty at the end of a phase.
        stage: String,
    },
    /// No sample can be read.
    #[error("none of the training samples can be read, so there is no step to profile")]
    NoSteps,
}

impl ProfileError {
    /// A command or a setting that helps, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Train(error) => error.hint(),
            Self::Device { .. } => Some(
                "use `--devices cpu` to profile the same model on the CPU, or one GPU, whose memory pools can be read"
                    .into(),
            ),
            Self::NoMeter => {
                Some("write `oomph::install_meter!();` once, at the root of its `main.rs`".into())
            }
            Self::Unplanned { .. } | Self::NoSteps => None,
        }
    }
}

/// Trains for some steps, evaluates some batches, and records every allocation. Nothing is saved.
///
/// A step or an evaluation that exceeds the limit ends the profile without an error: the profile shows what led to it.
///
/// # Errors
/// Where training fails, and where allocations cannot be recorded.
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
    let session = &*fitted(session)?;
    check_training(session).map_err(TrainError::from)?;
    let ProfileRun { timelines, warmup, step_seconds, host_bytes, out_of_memory } =
        charge(Account::Device, || measure(session, &options, observer))?;
    let has_step = |timeline: &Timeline| timeline.spans_of(SpanKind::Step).next().is_some();
    if !timelines.first().is_some_and(has_step) {
        return Err(ProfileError::NoSteps);
    }
    let mut found = with_plans(session, timelines, warmup)?.into_iter();
    let first = found.next().ok_or(ProfileError::NoSteps)?;
    Ok(Profile { first, others: found.collect(), step_seconds, host_bytes, out_of_memory })
}

/// Pairs each measured device with its plan of the same steps and evaluation batches, under the same names.
fn with_plans(
    session: &Session,
    timelines: Vec<Timeline>,
    warmup: usize,
) -> Result<Vec<ProfiledDevice>, TrainError> {
    // The first step differs from the second. Later steps equal the second.
    let before = warmup.min(1);
    let names = timelines.first().map(step_names).unwrap_or_default();
    let eval_batches = names.iter().filter(|name| name.starts_with("eval")).count();
    let steps = before + names.len() - eval_batches;
    let parts = plan_parts(session, PlanOptions::default(), steps)?;
    let replica = match parts {
        Some(_) => None,
        // All replicas have the same plan.
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

/// The plan without its first `before` steps, with the names of the measured steps.
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
