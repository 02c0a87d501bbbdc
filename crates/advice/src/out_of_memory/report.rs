use std::{fmt, ops::Deref, path::PathBuf};

use oomph_config::Change;
use oomph_core::{Bytes, Phase, printable::typed_setting};
use oomph_engine::exhausted::{Exhausted, Shortage};
use oomph_timeline::{Holder, Split};
use serde::{Deserialize, Serialize};

use super::process_memory::ProcessMemory;

/// Memory ran out, or does not suffice by plan, with the report.
#[derive(Clone, Debug, PartialEq)]
pub struct OutOfMemory {
    /// The shortage: where, and how it was detected.
    pub exhausted: Exhausted,
    /// The report. `None` until [`explain`](super::explain) adds it.
    pub report: Option<Box<OutOfMemoryReport>>,
}

impl OutOfMemory {
    /// The best advice that keeps the mathematics. With it a training that ran out of memory can continue in a new
    /// process, to the same result. `None` if there is no such advice, or if the training was refused by plan.
    pub fn goes_on_with(&self) -> Option<&Advice> {
        if matches!(self.shortage, Shortage::Planned { .. }) {
            return None;
        }
        self.report.as_ref()?.levers.iter().find(|advice| advice.keeps_mathematics)
    }
}

impl From<Exhausted> for OutOfMemory {
    fn from(exhausted: Exhausted) -> Self {
        Self { exhausted, report: None }
    }
}

impl Deref for OutOfMemory {
    type Target = Exhausted;

    fn deref(&self) -> &Exhausted {
        &self.exhausted
    }
}

impl std::error::Error for OutOfMemory {}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.exhausted.fmt(f)
    }
}

/// The report about a shortage of memory. Bytes are integers in JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutOfMemoryReport {
    /// The error as a sentence.
    pub message: String,
    /// The model and the batch: `resnet18 · batch 32`.
    pub title: String,
    /// The device.
    pub device: String,
    /// The phase in which memory ran out.
    pub phase: Phase,
    /// The stage or layer; empty outside of any.
    pub scope: String,
    /// The optimizer step, from 1.
    pub step: Option<usize>,
    /// Bytes of the allocation that failed, if known.
    pub requested_bytes: Option<Bytes>,
    /// The limit, if known.
    pub limit_bytes: Option<Bytes>,
    /// The planned peak of these settings.
    pub planned_peak_bytes: Bytes,
    /// Bytes in use that are not in the plan: tensors that user code keeps alive, or a leak.
    pub unplanned_bytes: Bytes,
    /// Bytes in use by category.
    pub in_use: Split,
    /// Whether `in_use` and `holders` were measured; otherwise they are those of the planned peak.
    pub is_measured: bool,
    /// The largest blocks, the largest first.
    pub holders: Vec<Holder>,
    /// Memory of the allocator and of other processes.
    #[serde(rename = "surroundings")]
    pub process_memory: ProcessMemory,
    /// The run directory of the training.
    pub run_dir: Option<PathBuf>,
    /// The saved state of the training; `None` if nothing was trained.
    pub kept: Option<Kept>,
    /// Advice that makes it fit, the best first.
    pub levers: Vec<Advice>,
    /// The advice with the lowest planned peak, if none makes it fit.
    pub least: Option<Advice>,
    /// The files of the report.
    pub files: Option<ReportFiles>,
    /// The reason why a file could not be written.
    pub not_written: Option<String>,
}

/// Settings that lower the planned peak, and their cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The names of the levers, such as `micro-batch`.
    pub levers: Vec<String>,
    /// Configuration keys with their new values.
    pub settings: Vec<(String, String)>,
    /// The settings as changes of a configuration. The JSON of a report does not have them.
    #[serde(skip)]
    pub changes: Vec<Change>,
    /// The planned peak with the settings.
    pub planned_peak_bytes: Bytes,
    /// The additional time per sample as a share: 0.1 means 10 % longer. Estimated from the operations of a step.
    pub slowdown: f64,
    /// Whether batch, gradients and optimizer stay the same.
    pub keeps_mathematics: bool,
    /// Other effects, in a few words.
    pub about: String,
}

impl Advice {
    /// The settings as a shell reads them: `--set memory.micro_batch=8`.
    pub fn typed(&self) -> String {
        let settings = self.settings.iter().map(|(key, value)| typed_setting(key, value));
        settings.collect::<Vec<_>>().join(" ")
    }

    /// The settings as command-line arguments: `--set`, `memory.micro_batch=8` …
    pub fn flags(&self) -> Vec<String> {
        let settings = self.settings.iter();
        settings.flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")]).collect()
    }
}

/// The saved state of a training that ran out of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Kept {
    /// The last finished step was saved.
    LastStep {
        /// The number of finished optimizer steps.
        step: usize,
        /// The directory of the checkpoint.
        checkpoint: PathBuf,
    },
    /// The newest checkpoint is from before: the memory of a failed device cannot be trusted, or saving failed.
    Before {
        /// The number of finished optimizer steps.
        step: usize,
        /// The directory of the checkpoint.
        checkpoint: PathBuf,
        /// Why no newer state was saved.
        reason: String,
    },
    /// There is no checkpoint.
    Nothing {
        /// The reason.
        reason: String,
    },
}

/// The files of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportFiles {
    /// The report for people.
    pub text: PathBuf,
    /// The report for programs.
    pub json: PathBuf,
    /// The measured timeline as a page, or the planned one if nothing was recorded. `None` if it could not be written.
    pub timeline: Option<PathBuf>,
}
