//! The figures of a profile: printed as JSON, and shown by the report.

use oomph_advice::planning::micro_batch;
use oomph_core::{Bytes, Phase};
use oomph_timeline::{Holder, SpanKind, Split, Timeline, TrackKind, TrackTimes};
use oomph_trainer::{
    Session,
    profile::{Profile, ProfiledDevice},
};
use serde::Serialize;

use super::destination::Files;

/// The number of listed blocks. Equal blocks count as one.
const LARGEST: usize = 10;

#[derive(Serialize)]
pub(super) struct Findings<'a> {
    #[serde(flatten)]
    pub(super) training: Training<'a>,
    /// The device with the highest peak in use. The peaks and all that follows belong to it.
    pub(super) device: &'a str,
    pub(super) strategy: Option<&'static str>,
    pub(super) devices: Vec<DeviceFindings<'a>>,
    /// Warm-up steps before the recorded ones.
    pub(super) warmup: usize,
    /// Of each recorded step.
    pub(super) step_seconds: &'a [f64],
    #[serde(flatten)]
    pub(super) peak: Peak,
    /// At the planned and at the measured peak.
    pub(super) categories: Categories,
    pub(super) phases: Vec<PhasePeak>,
    /// The time of a step by activity; empty if unknown.
    pub(super) times: Vec<TimeShare>,
    /// The largest blocks at the peak in use.
    pub(super) largest: Vec<Holder>,
    #[serde(flatten)]
    pub(super) recording: Recording,
    /// Why the profile ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) out_of_memory: Option<String>,
    pub(super) files: &'a Files,
}

/// The profiled training.
#[derive(Serialize)]
pub(super) struct Training<'a> {
    pub(super) model: &'a str,
    pub(super) batch: usize,
    pub(super) micro_batch: usize,
}

/// The peak of a device, planned and measured.
#[derive(Serialize)]
pub(super) struct Peak {
    pub(super) planned_peak_bytes: Bytes,
    pub(super) peak_in_use_bytes: Bytes,
    /// Planned minus measured, as a share of measured.
    pub(super) relative_error: f64,
}

/// The bounds of the recording.
#[derive(Serialize)]
pub(super) struct Recording {
    pub(super) host_bytes: Bytes,
    pub(super) limit_bytes: Option<Bytes>,
    pub(super) lost_events: u64,
}

/// The figures of one device.
#[derive(Serialize)]
pub(super) struct DeviceFindings<'a> {
    pub(super) device: &'a str,
    /// The first and the last stage, if the model is split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stages: Option<&'a [String; 2]>,
    #[serde(flatten)]
    pub(super) peak: Peak,
    /// Shares of the recorded steps. The three add up to 1.
    pub(super) busy_share: Option<f64>,
    pub(super) communication_share: Option<f64>,
    pub(super) idle_share: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct Categories {
    pub(super) planned: Split,
    pub(super) measured: Split,
}

#[derive(Serialize)]
pub(super) struct PhasePeak {
    pub(super) phase: Phase,
    pub(super) planned_peak_bytes: Bytes,
    pub(super) peak_in_use_bytes: Bytes,
}

#[derive(Serialize)]
pub(super) struct TimeShare {
    pub(super) kind: TrackKind,
    /// The average per step.
    pub(super) seconds: f64,
    /// The share of the steps. All shares add up to 1.
    pub(super) share: f64,
}

impl Peak {
    fn new(planned: &Timeline, measured: &Timeline) -> Self {
        let [planned_peak_bytes, peak_in_use_bytes] =
            [planned, measured].map(|timeline| timeline.peak().categories.total());
        let relative_error = difference(planned_peak_bytes, peak_in_use_bytes);
        Self { planned_peak_bytes, peak_in_use_bytes, relative_error }
    }
}

impl<'a> Findings<'a> {
    pub(super) fn new(session: &'a Session, warmup: usize, profile: &'a Profile, files: &'a Files) -> Self {
        let Profile { step_seconds, host_bytes, out_of_memory, .. } = profile;
        let ProfiledDevice { measured, planned, .. } = largest(profile);
        let categories =
            Categories { planned: planned.peak().categories, measured: measured.peak().categories };
        let (model, batch) = (session.architecture.name(), session.config.train.batch);
        Self {
            training: Training { model, batch, micro_batch: micro_batch(session).min(batch) },
            device: &measured.device,
            strategy: session.config.device.sharing.name(),
            devices: profile.devices().map(DeviceFindings::new).collect(),
            warmup,
            step_seconds,
            peak: Peak::new(planned, measured),
            categories,
            phases: phases(planned, measured),
            times: times(measured),
            largest: measured.holders(measured.peak().event, Some(planned), LARGEST),
            recording: Recording {
                host_bytes: *host_bytes,
                limit_bytes: measured.limit_bytes,
                lost_events: measured.lost_events,
            },
            out_of_memory: out_of_memory.as_ref().map(ToString::to_string),
            files,
        }
    }
}

impl<'a> DeviceFindings<'a> {
    fn new(device: &'a ProfiledDevice) -> Self {
        let ProfiledDevice { stages, measured, planned } = device;
        let times = measured.track_times();
        let share = |of: fn(TrackTimes) -> u64| times.map(|times| times.share(of(times)));
        Self {
            device: &measured.device,
            stages: stages.as_ref(),
            peak: Peak::new(planned, measured),
            busy_share: share(|times| times.busy),
            communication_share: share(|times| times.communication),
            idle_share: share(|times| times.idle),
        }
    }
}

/// The device with the highest peak in use; the first of equal ones.
pub(super) fn largest(profile: &Profile) -> &ProfiledDevice {
    let peak = |device: &&ProfiledDevice| device.measured.peak().categories.total();
    // `max_by_key` returns the last of equal elements.
    let mut devices: Vec<_> = profile.devices().collect();
    devices.reverse();
    devices.into_iter().max_by_key(peak).unwrap_or(&profile.first)
}

/// Planned minus measured, as a share of measured.
pub(super) fn difference(planned: Bytes, measured: Bytes) -> f64 {
    let measured = measured.get() as f64;
    if measured == 0.0 { 0.0 } else { (planned.get() as f64 - measured) / measured }
}

/// The time of a step by activity.
fn times(measured: &Timeline) -> Vec<TimeShare> {
    let times = measured.step_nanoseconds();
    let all: u64 = times.iter().map(|(_, nanoseconds)| nanoseconds).sum();
    let times = times.into_iter().map(|(kind, nanoseconds)| TimeShare {
        kind,
        seconds: nanoseconds as f64 / 1e9,
        share: nanoseconds as f64 / all.max(1) as f64,
    });
    times.collect()
}

/// The peak of each measured phase.
fn phases(planned: &Timeline, measured: &Timeline) -> Vec<PhasePeak> {
    let peak = |timeline: &Timeline, levels: &[Split], phase: Phase| {
        let spans = timeline.spans_of(SpanKind::Phase);
        let events = spans
            .filter(|span| timeline.names.text(span.name) == phase.name())
            .flat_map(|span| levels.get(span.start as usize..span.end as usize).unwrap_or_default());
        events.map(Split::total).max()
    };
    let (planned_levels, measured_levels) = (planned.levels(), measured.levels());
    let phases = Phase::ALL.into_iter().filter_map(|phase| {
        Some(PhasePeak {
            phase,
            planned_peak_bytes: peak(planned, &planned_levels, phase).unwrap_or_default(),
            peak_in_use_bytes: peak(measured, &measured_levels, phase)?,
        })
    });
    phases.collect()
}
