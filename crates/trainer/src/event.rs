use std::{collections::BTreeMap, fmt, path::PathBuf};

use oomph_core::{Bytes, Phase};
use oomph_memory::{Split, record::StepKind};
use serde::{Deserialize, Serialize};

use crate::StopReason;

/// Something that happened in a run: a line of `metrics.jsonl`, and with `--json` of standard output.
///
/// Bytes are integers, times are seconds, accuracy goes from 0 to 1.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Training begins, all is ready.
    Started(Started),
    /// Steps were taken and their loss was read.
    Step(StepMetrics),
    /// The held-out data was evaluated.
    Eval(EvalMetrics),
    /// A checkpoint is complete on disk.
    Checkpoint(Saved),
    /// Memory that is never given back. A warning says the same in words.
    Leak(LeakMetrics),
    /// Memory ran out, or will, as planned, and settings were changed so that it is enough: `memory.on_oom = "adapt"`.
    Adapted(Adapted),
    /// Something that the user should know and that does not end the run.
    Warning {
        /// What.
        message: String,
    },
    /// Training ended, by itself or because it was asked to.
    Done(Done),
    /// An error ended training. In `metrics.jsonl` alone: an observer's program is told by the error itself.
    Error {
        /// What went wrong.
        message: String,
    },
}

/// What a run is about.
#[derive(Clone, Debug, Serialize)]
pub struct Started {
    /// Where metrics and checkpoints go.
    pub run_dir: PathBuf,
    /// The model's name.
    pub model: String,
    /// Its elements that are trained.
    pub parameters: usize,
    /// Those that would be, were they not frozen.
    #[serde(skip_serializing_if = "is_none")]
    pub frozen_parameters: usize,
    /// The file of weights that it starts from, where it is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<PathBuf>,
    /// The data source's name.
    pub source: String,
    /// What a sample is, in words.
    pub sample: String,
    /// Samples that are trained on.
    pub train_samples: usize,
    /// Samples that are held out.
    pub test_samples: usize,
    /// The device, or all of them with commas between.
    pub device: String,
    /// How they share the work, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<&'static str>,
    /// How many replicas train together.
    pub world_size: usize,
    /// Samples that one optimizer step sees, on all devices.
    pub batch: usize,
    /// Samples that one forward-backward on one device sees.
    pub micro_batch: usize,
    /// The memory policy in words: `bf16 · recompute stages`.
    pub policy: String,
    /// Optimizer steps of the whole run.
    pub steps: usize,
    /// Optimizer steps of an epoch.
    pub steps_per_epoch: usize,
    /// Steps that were done before, in the run that is resumed.
    pub first_step: usize,
    /// The checkpoint that is resumed from.
    pub resumed_from: Option<PathBuf>,
    /// Whether CPU memory is measured: `install_meter!` is in the program.
    pub metered: bool,
    /// The planned peak of a step and an evaluation batch.
    pub planned_peak_bytes: Bytes,
    /// What the device may use, where that is known.
    pub limit_bytes: Option<Bytes>,
    /// The version of oomph.
    pub version: &'static str,
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

/// The figures of the steps since the last such event.
#[derive(Clone, Debug, Serialize)]
pub struct StepMetrics {
    /// Optimizer steps done.
    pub step: usize,
    /// The epoch of that step, from 1.
    pub epoch: usize,
    /// Mean loss over the samples of these steps, those left out that were skipped and whose loss is not finite.
    pub loss: f64,
    /// Share of samples that the model was right about, before each step.
    pub accuracy: Option<f64>,
    /// The learning rate of the last step.
    pub lr: f64,
    /// What the loss of the next step will be multiplied by before backward: in half precision alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<f32>,
    /// Steps since the start of the run that changed nothing, as a gradient was not finite: in half precision alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_steps: Option<usize>,
    /// Samples trained on in a second, evaluation and saving left out.
    pub samples_per_second: f64,
    /// Bytes of tensors and workspaces on the device now.
    pub in_use_bytes: Bytes,
    /// The most that were in use since the run began; on a GPU, the most that was seen at such an event.
    pub peak_in_use_bytes: Bytes,
    /// What was in use at the peak of the last step, by category: on the CPU, where allocations are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_peak_bytes: Option<Split>,
    /// What a GPU's allocator holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<Bytes>,
    /// The most that a GPU's pages ever took: an upper bound of the peak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_peak_bytes: Option<Bytes>,
    /// Seconds since the run began, in this process.
    pub seconds: f64,
}

/// The figures of one evaluation.
#[derive(Clone, Debug, Serialize)]
pub struct EvalMetrics {
    /// Optimizer steps done.
    pub step: usize,
    /// The epoch of the last step, from 1.
    pub epoch: usize,
    /// Mean loss over the held-out samples.
    pub eval_loss: f64,
    /// Share of them that the model is right about; of tokens, where there are many to a sample.
    pub eval_accuracy: Option<f64>,
    /// The perplexity, of language models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_perplexity: Option<f64>,
    /// How many there were.
    pub samples: usize,
    /// Whether no evaluation before had a lower loss.
    pub best: bool,
    /// How long it took.
    pub eval_seconds: f64,
}

/// Memory that grows from step to step, or from evaluation batch to evaluation batch.
#[derive(Clone, Debug, Serialize)]
pub struct LeakMetrics {
    /// Optimizer steps done; `None` in an evaluation of its own.
    pub step: Option<usize>,
    /// After what it was compared.
    pub point: LeakPoint,
    /// What each step, or each evaluation batch, adds.
    pub bytes_per_step: Bytes,
    /// What was added since it was first seen.
    pub grown_bytes: Bytes,
    /// Steps, or evaluation batches, that it took.
    pub steps: u64,
    /// Steps, or evaluation batches, until the limit is reached, where there is one.
    pub steps_left: Option<u64>,
    /// Bytes of tensors and workspaces on the device now.
    pub in_use_bytes: Bytes,
    /// What the device may use, where that is known.
    pub limit_bytes: Option<Bytes>,
    /// What each leaves behind: the phase that leaves most first, and in it the most bytes first.
    pub kinds: Vec<LeakKind>,
}

/// Where memory grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakPoint {
    /// From optimizer step to optimizer step.
    Step,
    /// From evaluation batch to evaluation batch.
    EvalBatch,
}

impl From<StepKind> for LeakPoint {
    fn from(kind: StepKind) -> Self {
        match kind {
            StepKind::Train => Self::Step,
            StepKind::Eval => Self::EvalBatch,
        }
    }
}

/// Blocks of one size, born at one place, that a leak consists of.
#[derive(Clone, Debug, Serialize)]
pub struct LeakKind {
    /// How many a step.
    pub count: u64,
    /// The size of each.
    pub bytes: Bytes,
    /// The phase they are born in.
    pub phase: Phase,
    /// The stage or layer they are born in; empty outside of any.
    pub scope: String,
}

/// How a training was made to fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Adapted {
    /// Optimizer steps done.
    pub step: usize,
    /// Keys with the values that they have from now on.
    pub settings: BTreeMap<String, String>,
    /// The planned peak with them.
    pub planned_peak_bytes: Bytes,
    /// What was wrong.
    pub because: String,
}

impl fmt::Display for Adapted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<_> = self.settings.iter().map(|(key, value)| format!("`{key}={value}`")).collect();
        let Self { because, planned_peak_bytes, .. } = self;
        write!(f, "{because}: going on with {}, planned peak {planned_peak_bytes}", settings.join(", "))
    }
}

/// A checkpoint on disk.
#[derive(Clone, Debug, Serialize)]
pub struct Saved {
    /// Optimizer steps done.
    pub step: usize,
    /// The directory.
    pub checkpoint: PathBuf,
    /// How long saving took.
    pub save_seconds: f64,
}

/// How a run ended.
#[derive(Clone, Debug, Serialize)]
pub struct Done {
    /// Optimizer steps done, those before a resume included.
    pub step: usize,
    /// Mean training loss of the last steps whose loss was read.
    pub loss: Option<f64>,
    /// Loss of the last evaluation.
    pub eval_loss: Option<f64>,
    /// Accuracy of the last evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_accuracy: Option<f64>,
    /// Perplexity of the last evaluation, of language models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_perplexity: Option<f64>,
    /// The lowest evaluation loss of the run.
    pub best_eval_loss: Option<f64>,
    /// The step that had it.
    pub best_step: Option<usize>,
    /// Samples trained on in a second, over all steps of this process, evaluation and saving left out.
    pub samples_per_second: f64,
    /// The most bytes that were in use on the device.
    pub peak_in_use_bytes: Bytes,
    /// Each of the devices, where there are several in this process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceMetrics>,
    /// Unreadable training samples that were left out, each time that they came up in this process.
    pub skipped_samples: usize,
    /// Steps of the whole run that changed nothing, as a gradient was not finite: in half precision alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_steps: Option<usize>,
    /// Where metrics and checkpoints are.
    pub run_dir: PathBuf,
    /// The last checkpoint.
    pub checkpoint: PathBuf,
    /// Seconds this process took.
    pub seconds: f64,
    /// Why it ended.
    pub ended: Ended,
}

/// One of several devices that train together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceMetrics {
    /// Its name.
    pub device: String,
    /// The first and the last of the stages that it has, where the model is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<[String; 2]>,
    /// The most bytes that were in use on it, where that is measured: on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_in_use_bytes: Option<Bytes>,
    /// The share of forward and backward in which it waited for others, where the model is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_share: Option<f64>,
    /// Seconds in which gradients were on their way between replicas, where there are some; and those of them in which
    /// the device waited for it, since backward was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_reduce_seconds: Option<[f64; 2]>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All steps are done.
    Complete,
    /// Evaluation stopped improving.
    EarlyStopping,
    /// SIGINT.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

impl From<StopReason> for Ended {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Interrupt => Self::Interrupted,
            StopReason::Terminate => Self::Terminated,
        }
    }
}

/// A moment of a run that is too frequent to be an [`Event`]: for progress bars.
#[derive(Clone, Copy, Debug)]
pub enum Tick {
    /// So many optimizer steps are done.
    Step {
        /// Optimizer steps done.
        step: usize,
    },
    /// So many batches of an evaluation are done.
    Eval {
        /// Batches done.
        batch: usize,
        /// Batches there are.
        batches: usize,
    },
}

/// Is told what happens in a run.
pub trait Observer {
    /// Something happened that is worth a line.
    fn event(&mut self, event: &Event);

    /// Something moved.
    fn tick(&mut self, _tick: Tick) {}
}

/// An observer that says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Observer for Quiet {
    fn event(&mut self, _event: &Event) {}
}
