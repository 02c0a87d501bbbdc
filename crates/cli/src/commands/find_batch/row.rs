use std::sync::Arc;

use oomph_advice::out_of_memory::OutOfMemoryReport;
use oomph_core::Bytes;
use serde::Serialize;

use crate::{
    probe::{Probed, failure::ProbeError},
    verdict::Verdict,
};

/// A size with its plan and its try; as JSON.
#[derive(Clone, Serialize)]
pub(super) struct Row {
    pub(super) batch: usize,
    pub(super) planned_peak_bytes: Option<Bytes>,
    pub(super) peak_in_use_bytes: Option<Bytes>,
    pub(super) reserved_bytes: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) planned_step_seconds: Option<f64>,
    pub(super) step_seconds: Option<f64>,
    pub(super) samples_per_second: Option<f64>,
    pub(super) verdict: Verdict,
    /// Why it does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out_of_memory: Option<OutOfMemoryReport>,
    /// The growth of memory per step.
    #[serde(skip)]
    pub(super) growth_bytes: Option<Bytes>,
    #[serde(skip)]
    pub(super) failure: Option<Arc<ProbeError>>,
}

impl Row {
    /// The result of a child.
    pub(super) fn new(
        batch: usize,
        planned_peak_bytes: Option<Bytes>,
        probed: Probed,
        limit_bytes: Option<Bytes>,
    ) -> Self {
        let Probed { planned, rehearsed, failure, .. } = probed;
        let peak_in_use_bytes = rehearsed.and_then(|rehearsed| rehearsed.peak_in_use_bytes);
        let is_above = limit_bytes.zip(peak_in_use_bytes).is_some_and(|(limit, peak)| peak > limit);
        let verdict = match &failure {
            None if is_above => Verdict::DoesNotFit,
            None => Verdict::Fits,
            Some(failure) if failure.is_out_of_memory() || failure.is_killed() => Verdict::DoesNotFit,
            Some(_) => Verdict::Failed,
        };
        Self {
            batch,
            planned_peak_bytes,
            peak_in_use_bytes,
            reserved_bytes: rehearsed.and_then(|rehearsed| rehearsed.reserved_bytes),
            planned_step_seconds: planned.and_then(|planned| planned.step_seconds),
            step_seconds: rehearsed.map(|rehearsed| rehearsed.step_seconds),
            samples_per_second: rehearsed.map(|rehearsed| rehearsed.samples_per_second),
            verdict,
            reason: failure.as_ref().map(ToString::to_string),
            out_of_memory: failure.as_ref().and_then(|failure| failure.report().cloned()),
            growth_bytes: rehearsed.map(|rehearsed| rehearsed.growth_bytes),
            failure: failure.map(Arc::new),
        }
    }

    /// A size that was not tried: some run of it needs as much as the plan, even if another needs less.
    pub(super) fn planned(batch: usize, planned_peak_bytes: Option<Bytes>) -> Self {
        let reason = "planned, with the workspaces of all threads in use".to_owned();
        let row = Self::new(batch, planned_peak_bytes, Probed::default(), None);
        Self { verdict: Verdict::DoesNotFit, reason: Some(reason), ..row }
    }

    /// The measured peak as a share of the planned one.
    pub(super) fn of_planned(&self) -> f64 {
        self.peak_in_use_bytes
            .zip(self.planned_peak_bytes)
            .map_or(1.0, |(measured, planned)| measured.get() as f64 / planned.get().max(1) as f64)
    }

    /// The verdict with its reason.
    pub(super) fn text(&self) -> String {
        match (self.verdict, &self.reason) {
            (Verdict::Fits, _) => "fits".into(),
            (_, Some(reason)) => format!("does not fit: {reason}"),
            (_, None) => "does not fit".into(),
        }
    }
}
