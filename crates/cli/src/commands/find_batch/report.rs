//! What a search found, as people and programs read it.

use std::{path::PathBuf, sync::Arc};

use oomph_config::Value;
use oomph_core::{Bytes, Split};
use oomph_trainer::{Found, OutOfMemoryReport, Rehearsal, Session};
use serde::Serialize;

use super::subject::Subject;
use crate::{
    numbers::{grouped, rate},
    probe::{ProbeError, Probed},
    table::{Align, Table},
};

/// What `--json` says.
#[derive(Serialize)]
pub(super) struct Report {
    model: String,
    /// All of them, with commas between.
    device: String,
    /// How several devices share the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<&'static str>,
    /// The largest batch that fits; with `--effective-batch` that batch, where a micro-batch fits.
    largest_batch: Option<usize>,
    /// With `--effective-batch` what to set.
    #[serde(skip_serializing_if = "Option::is_none")]
    micro_batch: Option<usize>,
    /// Micro-batches of a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    micro_batches: Option<usize>,
    /// Whether the next larger one was tried too, or there is none.
    is_proven: bool,
    /// What may be used, the margin left out.
    limit_bytes: Option<Bytes>,
    pub(super) probes: Vec<Shown>,
    /// What each step leaves behind, of the batch that was found: more steps than were tried will run out.
    #[serde(skip_serializing_if = "Option::is_none")]
    growth_bytes_per_step: Option<Bytes>,
    /// Why no larger ones were looked at.
    capped: Option<String>,
    /// Whether a signal ended the search before its time.
    pub(super) interrupted: bool,
    /// The config file that has it now.
    pub(super) written: Option<PathBuf>,
    #[serde(skip)]
    subject: Subject,
    #[serde(skip)]
    train_samples: usize,
    #[serde(skip)]
    devices: usize,
}

/// A batch that was tried.
pub(super) struct Row {
    pub(super) batch: usize,
    pub(super) planned_peak_bytes: Option<Bytes>,
    pub(super) rehearsed: Option<Rehearsal>,
    pub(super) verdict: Verdict,
    /// Why it does not fit.
    reason: Option<String>,
    pub(super) failure: Option<Arc<ProbeError>>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Fits,
    DoesNotFit,
    Failed,
}

/// A row as JSON has it.
#[derive(Serialize)]
pub(super) struct Shown {
    batch: usize,
    planned_peak_bytes: Option<Bytes>,
    peak_in_use_bytes: Option<Bytes>,
    reserved_bytes: Option<Bytes>,
    step_seconds: Option<f64>,
    samples_per_second: Option<f64>,
    verdict: Verdict,
    /// Why it does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out_of_memory: Option<OutOfMemoryReport>,
}

impl Row {
    /// What came of a child.
    pub(super) fn new(
        batch: usize,
        planned_peak_bytes: Option<Bytes>,
        probed: Probed,
        limit_bytes: Option<Bytes>,
    ) -> Self {
        let Probed { rehearsed, failure, .. } = probed;
        let peak = rehearsed.and_then(|rehearsed| rehearsed.peak_in_use_bytes);
        let is_above = limit_bytes.zip(peak).is_some_and(|(limit, peak)| peak > limit);
        let verdict = match &failure {
            None if is_above => Verdict::DoesNotFit,
            None => Verdict::Fits,
            Some(failure) if failure.is_out_of_memory() || failure.is_killed() => Verdict::DoesNotFit,
            Some(_) => Verdict::Failed,
        };
        let reason = failure.as_ref().map(ToString::to_string);
        Self { batch, planned_peak_bytes, rehearsed, verdict, reason, failure: failure.map(Arc::new) }
    }

    /// It was not tried: no plan on this device was ever lower than what some run of it needs.
    pub(super) fn planned(batch: usize, planned_peak_bytes: Option<Bytes>) -> Self {
        let reason = "by plan, which has all threads need their workspaces at once".to_owned();
        let verdict = Verdict::DoesNotFit;
        Self { batch, planned_peak_bytes, rehearsed: None, verdict, reason: Some(reason), failure: None }
    }

    /// What was in use as a share of what was planned.
    pub(super) fn of_planned(&self) -> f64 {
        let measured = self.rehearsed.and_then(|rehearsed| rehearsed.peak_in_use_bytes);
        measured
            .zip(self.planned_peak_bytes)
            .map_or(1.0, |(measured, planned)| measured.get() as f64 / planned.get().max(1) as f64)
    }

    fn shown(&self) -> Shown {
        let rehearsed = self.rehearsed.as_ref();
        Shown {
            batch: self.batch,
            planned_peak_bytes: self.planned_peak_bytes,
            peak_in_use_bytes: rehearsed.and_then(|rehearsed| rehearsed.peak_in_use_bytes),
            reserved_bytes: rehearsed.and_then(|rehearsed| rehearsed.reserved_bytes),
            step_seconds: rehearsed.map(|rehearsed| rehearsed.step_seconds),
            samples_per_second: rehearsed.map(|rehearsed| rehearsed.samples_per_second),
            verdict: self.verdict,
            reason: self.reason.clone(),
            out_of_memory: self.failure.as_ref().and_then(|failure| failure.report().cloned()),
        }
    }
}

impl Report {
    pub(super) fn new(
        session: &Session,
        subject: Subject,
        (found, chosen): (Found, Option<usize>),
        limit_bytes: Option<Bytes>,
        rows: &[Row],
        capped: Option<String>,
    ) -> Self {
        let batch = session.config.train.batch;
        let share = session.share_of(session.largest_train_batch());
        let devices: Vec<_> = session.config.device.devices.iter().map(ToString::to_string).collect();
        let micro_batch = chosen.filter(|_| subject == Subject::MicroBatch);
        Self {
            model: session.architecture.name().to_owned(),
            device: devices.join(","),
            strategy: session.config.device.sharing.name(),
            largest_batch: if subject == Subject::Batch { chosen } else { micro_batch.map(|_| batch) },
            micro_batch,
            micro_batches: micro_batch.map(|micro_batch| share.div_ceil(micro_batch)),
            is_proven: found.is_proven,
            limit_bytes,
            probes: rows.iter().map(Row::shown).collect(),
            growth_bytes_per_step: chosen.and_then(|chosen| growth(rows, chosen)),
            capped,
            interrupted: false,
            written: None,
            subject,
            train_samples: session.source.len(Split::Train),
            devices: devices.len(),
        }
    }

    /// What is to be set, where something was found.
    pub(super) fn values(&self) -> Option<Vec<(&'static str, Value)>> {
        let batch = ("train.batch", Value::from(self.largest_batch?));
        let micro_batch = self.micro_batch.map(|size| ("memory.micro_batch", Value::from(size)));
        Some(std::iter::once(batch).chain(micro_batch).collect())
    }

    /// What there is to be warned of.
    pub(super) fn warning(&self) -> Option<String> {
        let growth = self.growth_bytes_per_step?;
        Some(format!(
            "every step leaves {growth} behind, so that a longer training will run out of memory with any batch: \
             `oomph train` says where it comes from"
        ))
    }

    pub(super) fn text(&self) -> String {
        let each = if self.devices > 1 { " each" } else { "" };
        let limit = self.limit_bytes.map(|limit| format!(" with {limit}{each}")).unwrap_or_default();
        let strategy = self.strategy.filter(|_| self.devices > 1).map(|strategy| format!(" ({strategy})"));
        let device = format!("{}{}", self.device, strategy.unwrap_or_default());
        let mut text = format!("{} on {device}{limit}\n\n{}", self.model, self.table());
        if let Some(answer) = self.answer() {
            text += &format!("\n{answer}\n");
        }
        if let Some(path) = &self.written {
            text += &format!("written into {}\n", path.display());
        }
        text
    }

    fn table(&self) -> Table<7> {
        use Align::{Left, Right};
        let mut table = Table::new([Right, Right, Right, Right, Right, Right, Left]);
        let name = self.subject.name();
        table.heading([name, "planned peak", "peak in use", "reserved", "step", "samples/s", ""]);
        let chosen = self.micro_batch.or(self.largest_batch);
        for probe in &self.probes {
            let bytes = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
            let row = [
                grouped(probe.batch),
                bytes(probe.planned_peak_bytes),
                bytes(probe.peak_in_use_bytes),
                bytes(probe.reserved_bytes),
                probe.step_seconds.map(seconds).unwrap_or_default(),
                probe.samples_per_second.map(rate).unwrap_or_default(),
                probe.verdict(),
            ];
            if Some(probe.batch) == chosen { table.strong(row) } else { table.row(row) }
        }
        table.without_empty_columns()
    }

    /// What a batch that is larger than the data comes to.
    fn all_there_are(&self) -> String {
        let is_more = self.largest_batch.is_some_and(|batch| batch > self.train_samples);
        if is_more {
            format!(" (all {} samples there are)", grouped(self.train_samples))
        } else {
            String::new()
        }
    }

    fn answer(&self) -> Option<String> {
        let capped = self.capped.as_ref().map(|capped| format!("  ({capped})")).unwrap_or_default();
        let more = if self.is_proven { "" } else { "; a larger one may fit too" };
        match (self.micro_batch.zip(self.micro_batches), self.largest_batch) {
            (Some((size, 1)), Some(batch)) => {
                Some(format!("batch {} fits as a whole, micro-batch {}", grouped(batch), grouped(size)))
            }
            (Some((size, count)), Some(batch)) => Some(format!(
                "batch {}{} fits in {} micro-batches of {}{capped}: --set train.batch={batch} --set \
                 memory.micro_batch={size}",
                grouped(batch),
                self.all_there_are(),
                grouped(count),
                grouped(size),
            )),
            (None, Some(batch)) => Some(format!("largest batch that fits: {}{capped}{more}", grouped(batch))),
            (_, None) => None,
        }
    }
}

impl Shown {
    fn verdict(&self) -> String {
        match (self.verdict, &self.reason) {
            (Verdict::Fits, _) => "fits".into(),
            (_, Some(reason)) => format!("does not fit: {reason}"),
            (_, None) => "does not fit".into(),
        }
    }
}

/// What each step leaves behind, where that is worth a word.
fn growth(rows: &[Row], chosen: usize) -> Option<Bytes> {
    /// Less is lost among what is freed.
    const LEAST: Bytes = Bytes::new(4096);
    let row = rows.iter().find(|row| row.batch == chosen)?;
    Some(row.rehearsed?.growth_bytes).filter(|growth| *growth >= LEAST)
}

/// `41 ms`, `1.30 s`.
fn seconds(seconds: f64) -> String {
    if seconds < 0.9995 { format!("{:.0} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}
