//! The result of a search as text and JSON.

use std::path::PathBuf;

use oomph_config::Value;
use oomph_core::{Bytes, Split, printable};
use oomph_engine::session::largest_train_batch;
use oomph_trainer::Session;
use serde::Serialize;

use super::{row::Row, subject::Subject};
use crate::{
    numbers::{grouped, rate},
    table::{
        Column::{Left, Right},
        Table,
    },
};

/// The result as JSON.
#[derive(Serialize)]
pub(super) struct Report {
    model: String,
    /// All devices, separated by commas.
    device: String,
    /// How several devices share the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<&'static str>,
    /// The largest batch that fits. With `--effective-batch` that batch, if a micro-batch fits.
    largest_batch: Option<usize>,
    /// The micro-batch to set with `--effective-batch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    micro_batch: Option<usize>,
    /// Micro-batches per step.
    #[serde(skip_serializing_if = "Option::is_none")]
    micro_batches: Option<usize>,
    /// Whether the next larger size does not fit or does not exist.
    pub(super) is_proven: bool,
    /// The memory limit without the margin.
    pub(super) limit_bytes: Option<Bytes>,
    pub(super) probes: Vec<Row>,
    /// Growth of memory per step with the chosen batch: a longer training runs out of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    growth_bytes_per_step: Option<Bytes>,
    /// Why the search tried no larger sizes.
    pub(super) capped: Option<String>,
    /// Whether a signal ended the search early.
    pub(super) interrupted: bool,
    /// The config file that now has the result.
    pub(super) written: Option<PathBuf>,
    #[serde(skip)]
    searched: Searched,
}

/// The subject and the setting of the search, for the text alone.
struct Searched {
    subject: Subject,
    train_samples: usize,
    devices: usize,
}

impl Report {
    /// The report of these tries; `chosen` is the size to use, if one fits.
    pub(super) fn new(session: &Session, subject: Subject, probes: Vec<Row>, chosen: Option<usize>) -> Self {
        let batch = session.config.train.batch;
        let share = session.share_of(largest_train_batch(session));
        let devices: Vec<_> = session.config.device.devices.iter().map(ToString::to_string).collect();
        let train_samples = session.source.len(Split::Train);
        let micro_batch = chosen.filter(|_| subject == Subject::MicroBatch);
        Self {
            model: session.architecture.name().to_owned(),
            device: devices.join(","),
            strategy: session.config.device.sharing.name(),
            largest_batch: if subject == Subject::Batch { chosen } else { micro_batch.map(|_| batch) },
            micro_batch,
            micro_batches: micro_batch.map(|micro_batch| share.div_ceil(micro_batch)),
            is_proven: false,
            limit_bytes: None,
            growth_bytes_per_step: chosen.and_then(|chosen| growth(&probes, chosen)),
            probes,
            capped: None,
            interrupted: false,
            written: None,
            searched: Searched { subject, train_samples, devices: devices.len() },
        }
    }

    /// The keys and values to set, if a batch fits.
    pub(super) fn values(&self) -> Option<Vec<(&'static str, Value)>> {
        let batch = ("train.batch", Value::from(self.largest_batch?));
        let micro_batch = self.micro_batch.map(|size| ("memory.micro_batch", Value::from(size)));
        Some(std::iter::once(batch).chain(micro_batch).collect())
    }

    /// A warning about growing memory.
    pub(super) fn warning(&self) -> Option<String> {
        let growth = self.growth_bytes_per_step?;
        Some(format!(
            "memory grows by {growth} per step: a long training runs out of memory with any batch; `oomph train` \
             reports the source of the leak"
        ))
    }

    pub(super) fn text(&self) -> String {
        let devices = self.searched.devices;
        let each = if devices > 1 { " each" } else { "" };
        let limit = self.limit_bytes.map(|limit| format!(" with {limit}{each}")).unwrap_or_default();
        let strategy = self.strategy.filter(|_| devices > 1).map(|strategy| format!(" ({strategy})"));
        let device = format!("{}{}", self.device, strategy.unwrap_or_default());
        let mut text = format!("{} on {device}{limit}\n\n{}", self.model, self.table());
        if let Some(answer) = self.answer() {
            text += &format!("\n{answer}\n");
        }
        if let Some(path) = &self.written {
            text += &format!("written to {}\n", printable(path.display()));
        }
        text
    }

    fn table(&self) -> Table<8> {
        let mut table = Table::new([
            Right(self.searched.subject.name()),
            Right("planned peak"),
            Right("peak in use"),
            Right("reserved"),
            Right("planned step"),
            Right("step"),
            Right("samples/s"),
            Left(""),
        ]);
        let chosen = self.micro_batch.or(self.largest_batch);
        for probe in &self.probes {
            let bytes = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
            let row = [
                grouped(probe.batch),
                bytes(probe.planned_peak_bytes),
                bytes(probe.peak_in_use_bytes),
                bytes(probe.reserved_bytes),
                probe.planned_step_seconds.map(seconds).unwrap_or_default(),
                probe.step_seconds.map(seconds).unwrap_or_default(),
                probe.samples_per_second.map(rate).unwrap_or_default(),
                probe.text(),
            ];
            if Some(probe.batch) == chosen { table.strong(row) } else { table.row(row) }
        }
        table.without_empty_columns()
    }

    fn answer(&self) -> Option<String> {
        let capped = self.capped.as_ref().map(|capped| format!("  ({capped})")).unwrap_or_default();
        let samples = self.searched.train_samples;
        let is_all = self.largest_batch.is_some_and(|batch| batch > samples);
        let all = is_all.then(|| format!(" (the whole training set has {})", grouped(samples)));
        let more = if self.is_proven { "" } else { "; a larger one may fit too" };
        match (self.micro_batch.zip(self.micro_batches), self.largest_batch) {
            (Some((size, 1)), Some(batch)) => {
                Some(format!("batch {} fits as one micro-batch of {}", grouped(batch), grouped(size)))
            }
            (Some((size, count)), Some(batch)) => Some(format!(
                "batch {}{} fits in {} micro-batches of {}{capped}: --set train.batch={batch} --set \
                 memory.micro_batch={size}",
                grouped(batch),
                all.unwrap_or_default(),
                grouped(count),
                grouped(size),
            )),
            (None, Some(batch)) => Some(format!("largest batch that fits: {}{capped}{more}", grouped(batch))),
            (_, None) => None,
        }
    }
}

/// The growth of memory per step, if it is significant.
fn growth(rows: &[Row], chosen: usize) -> Option<Bytes> {
    /// Less than this is noise.
    const LEAST: Bytes = Bytes::new(4096);
    let row = rows.iter().find(|row| row.batch == chosen)?;
    row.growth_bytes.filter(|growth| *growth >= LEAST)
}

/// `41 ms`, `1.30 s`.
fn seconds(seconds: f64) -> String {
    if seconds < 0.9995 { format!("{:.0} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}
