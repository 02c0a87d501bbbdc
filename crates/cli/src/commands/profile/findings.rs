//! What a profile says in figures: what `--json` prints, and the report shows.

use oomph_core::{Bytes, Phase};
use oomph_memory::{Holder, LaneKind, LaneTimes, SpanKind, Split, Timeline};
use oomph_trainer::{Profile, ProfiledDevice, Session};
use serde::Serialize;

use super::destination::Files;

/// How many of the largest blocks are listed, those that are alike as one.
const LARGEST: usize = 10;

#[derive(Serialize)]
pub(super) struct Findings<'a> {
    pub(super) model: &'a str,
    pub(super) batch: usize,
    pub(super) micro_batch: usize,
    /// That with the highest peak in use, to which `planned_peak_bytes` and what follows belong.
    pub(super) device: &'a str,
    pub(super) strategy: Option<&'static str>,
    pub(super) devices: Vec<DeviceFindings<'a>>,
    /// Steps before those that are shown.
    pub(super) warmup: usize,
    /// Of each step that is shown.
    pub(super) step_seconds: &'a [f64],
    pub(super) planned_peak_bytes: Bytes,
    pub(super) peak_in_use_bytes: Bytes,
    /// How much more was planned than measured, as a share of what was measured.
    pub(super) relative_error: f64,
    /// At the peak of each.
    pub(super) categories: Categories,
    pub(super) phases: Vec<PhasePeak>,
    /// What the steps that are shown were spent with: nothing where that is not known.
    pub(super) times: Vec<TimeShare>,
    /// The largest blocks at the peak in use.
    pub(super) largest: Vec<Holder>,
    pub(super) host_bytes: Bytes,
    pub(super) limit_bytes: Option<Bytes>,
    pub(super) lost_events: u64,
    /// Why it ended before its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) out_of_memory: Option<String>,
    pub(super) files: &'a Files,
}

/// One of the devices.
#[derive(Serialize)]
pub(super) struct DeviceFindings<'a> {
    pub(super) device: &'a str,
    /// The first and the last, where the model is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stages: Option<&'a [String; 2]>,
    pub(super) planned_peak_bytes: Bytes,
    pub(super) peak_in_use_bytes: Bytes,
    pub(super) relative_error: f64,
    /// Of the optimizer steps that are shown; the three add up to 1.
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
    pub(super) kind: LaneKind,
    /// On average of a step.
    pub(super) seconds: f64,
    /// Of the steps; they add up to 1.
    pub(super) share: f64,
}

impl<'a> Findings<'a> {
    pub(super) fn new(session: &'a Session, warmup: usize, profile: &'a Profile, files: &'a Files) -> Self {
        let Profile { step_seconds, host_bytes, out_of_memory, .. } = profile;
        let ProfiledDevice { measured, planned, .. } = largest(profile);
        let categories =
            Categories { planned: planned.peak().categories, measured: measured.peak().categories };
        let (planned_peak, peak) = (categories.planned.total(), categories.measured.total());
        Self {
            model: session.architecture.name(),
            batch: session.config.train.batch,
            micro_batch: session.micro_batch().min(session.config.train.batch),
            device: &measured.device,
            strategy: session.config.device.sharing.name(),
            devices: profile.devices().map(DeviceFindings::new).collect(),
            warmup,
            step_seconds,
            planned_peak_bytes: planned_peak,
            peak_in_use_bytes: peak,
            relative_error: difference(planned_peak, peak),
            categories,
            phases: phases(planned, measured),
            times: times(measured),
            largest: measured.holders(measured.peak().event, Some(planned), LARGEST),
            host_bytes: *host_bytes,
            limit_bytes: measured.limit_bytes,
            lost_events: measured.lost_events,
            out_of_memory: out_of_memory.as_ref().map(ToString::to_string),
            files,
        }
    }
}

impl<'a> DeviceFindings<'a> {
    fn new(device: &'a ProfiledDevice) -> Self {
        let ProfiledDevice { stages, measured, planned } = device;
        let [planned_peak, peak] = [planned, measured].map(|timeline| timeline.peak().categories.total());
        let times = measured.lane_times();
        let share = |of: fn(LaneTimes) -> u64| times.map(|times| times.share(of(times)));
        Self {
            device: &measured.device,
            stages: stages.as_ref(),
            planned_peak_bytes: planned_peak,
            peak_in_use_bytes: peak,
            relative_error: difference(planned_peak, peak),
            busy_share: share(|times| times.busy),
            communication_share: share(|times| times.communication),
            idle_share: share(|times| times.idle),
        }
    }
}

/// The device with the highest peak in use, the first of several.
fn largest(profile: &Profile) -> &ProfiledDevice {
    let peak = |device: &&ProfiledDevice| device.measured.peak().categories.total();
    // Of several that are the highest `max_by_key` takes the last.
    let mut devices: Vec<_> = profile.devices().collect();
    devices.reverse();
    devices.into_iter().max_by_key(peak).unwrap_or(&profile.first)
}

/// How much more the first is than the second, as a share of the second.
pub(super) fn difference(planned: Bytes, measured: Bytes) -> f64 {
    let measured = measured.get() as f64;
    if measured == 0.0 { 0.0 } else { (planned.get() as f64 - measured) / measured }
}

/// What steps were spent with.
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

/// The peak of each phase that was measured.
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
