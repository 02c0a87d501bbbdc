use std::path::PathBuf;

use oomph_core::{Bytes, Phase};
use oomph_memory::{Holder, Split};
use serde::{Deserialize, Serialize};

use super::{Advice, Surroundings};

/// What a run that ran out of memory found out about it. Bytes are integers in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutOfMemoryReport {
    /// The error in a sentence.
    pub message: String,
    /// What is trained: `resnet18 · batch 32`.
    pub title: String,
    /// The device.
    pub device: String,
    /// What was being done.
    pub phase: Phase,
    /// The stage, layer or part of one; empty outside of any.
    pub scope: String,
    /// The optimizer step, from 1.
    pub step: Option<usize>,
    /// What was asked for, where that is known.
    pub requested_bytes: Option<Bytes>,
    /// What the device may use, where that is known.
    pub limit_bytes: Option<Bytes>,
    /// The planned peak of these settings.
    pub planned_peak_bytes: Bytes,
    /// In use then and not in the plan: what a model, a task or other code of the user's own keeps.
    pub unplanned_bytes: Bytes,
    /// What was in use, or will be, and for what.
    pub in_use: Split,
    /// Whether `in_use` and `holders` were recorded; else they are those of the planned peak.
    pub is_measured: bool,
    /// Who holds most, the largest first.
    pub holders: Vec<Holder>,
    /// What the allocator and other processes hold beside.
    pub surroundings: Surroundings,
    /// The run directory, where a training had one.
    pub run_dir: Option<PathBuf>,
    /// What is left of the training. `None` for what trains nothing.
    pub kept: Option<Kept>,
    /// What makes it fit, the best first.
    pub levers: Vec<Advice>,
    /// Where nothing makes it fit: what needs least.
    pub least: Option<Advice>,
    /// Where this was written.
    pub files: Option<ReportFiles>,
    /// Why not all of it was.
    pub not_written: Option<String>,
}

/// What is left of a training that ran out of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Kept {
    /// The state of the last finished step was saved.
    LastStep {
        /// Optimizer steps done.
        step: usize,
        /// Where.
        checkpoint: PathBuf,
    },
    /// The checkpoint from before counts: the device failed and is not trusted, or nothing could be saved.
    Before {
        /// Optimizer steps done.
        step: usize,
        /// Where.
        checkpoint: PathBuf,
        /// Why nothing newer was saved.
        reason: String,
    },
    /// Nothing was saved, and nothing had been.
    Nothing {
        /// Why.
        reason: String,
    },
}

/// Where a report was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportFiles {
    /// As people read it.
    pub text: PathBuf,
    /// As programs read it.
    pub json: PathBuf,
    /// The timeline up to then as a page; the planned one, where nothing was recorded. `None` where there was no room
    /// for it.
    pub timeline: Option<PathBuf>,
}
