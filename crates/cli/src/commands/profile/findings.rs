//! What a profile says in figures: what `--json` prints, and the report shows.

use oomph_core::{Bytes, Phase};
use oomph_memory::{Holder, SpanKind, Split, Timeline};
use oomph_trainer::{Profile, Session};
use serde::Serialize;

use super::destination::Files;

/// How many of the largest blocks are listed, those that are alike as one.
const LARGEST: usize = 10;

#[derive(Serialize)]
pub(super) struct Findings<'a> {
    pub(super) model: &'a str,
    pub(super) batch: usize,
    pub(super) micro_batch: usize,
    pub(super) device: &'a str,
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

impl<'a> Findings<'a> {
    pub(super) fn new(session: &'a Session, warmup: usize, profile: &'a Profile, files: &'a Files) -> Self {
        let Profile { measured, planned, step_seconds, host_bytes, out_of_memory } = profile;
        let categories =
            Categories { planned: planned.peak().categories, measured: measured.peak().categories };
        let (planned_peak, peak) = (categories.planned.total(), categories.measured.total());
        Self {
            model: session.architecture.name(),
            batch: session.config.train.batch,
            micro_batch: session.micro_batch().min(session.config.train.batch),
            device: &measured.device,
            warmup,
            step_seconds,
            planned_peak_bytes: planned_peak,
            peak_in_use_bytes: peak,
            relative_error: difference(planned_peak, peak),
            categories,
            phases: phases(planned, measured),
            largest: measured.holders(measured.peak().event, Some(planned), LARGEST),
            host_bytes: *host_bytes,
            limit_bytes: measured.limit_bytes,
            lost_events: measured.lost_events,
            out_of_memory: out_of_memory.as_ref().map(ToString::to_string),
            files,
        }
    }
}

/// How much more the first is than the second, as a share of the second.
pub(super) fn difference(planned: Bytes, measured: Bytes) -> f64 {
    let measured = measured.get() as f64;
    if measured == 0.0 { 0.0 } else { (planned.get() as f64 - measured) / measured }
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
