use std::{collections::BTreeMap, fmt, path::PathBuf};

use oomph_config::sections::eval_metric::EvalMetric;
use oomph_core::{Bytes, Phase};
use oomph_memory::record::StepKind;
use oomph_timeline::Split;
use serde::{Deserialize, Serialize};

/// An event of a run: a line of `metrics.jsonl`, and with `--json` of stdout.
///
/// Bytes are integers, times are seconds, accuracy goes from 0 to 1.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Training begins.
    Started(Started),
    /// The losses of some steps were read.
    Step(StepMetrics),
    /// The held-out set was evaluated.
    Eval(EvalMetrics),
    /// A checkpoint is complete on disk.
    Checkpoint(Saved),
    /// Memory leaks. A warning says the same in words.
    Leak(LeakMetrics),
    /// Memory ran out, or the plan exceeds the limit, and `memory.on_oom = "adapt"` changed settings to fit.
    Adapted(Adapted),
    /// `memory.fit = "auto"` chose settings that fit.
    Fitted(Fitted),
    /// A warning. The run continues.
    Warning {
        /// The warning.
        message: String,
    },
    /// Training ended without an error.
    Done(Done),
    /// An error ended training. Only `metrics.jsonl` gets this event: training returns the error to its caller.
    Error {
        /// The error.
        message: String,
    },
}

/// A run that begins.
#[derive(Clone, Debug, Serialize)]
pub struct Started {
    /// The run directory.
    pub run_dir: PathBuf,
    /// The model's name.
    pub model: String,
    /// Trained elements of the model.
    pub parameters: usize,
    /// Frozen elements of the model.
    #[serde(skip_serializing_if = "is_none")]
    pub frozen_parameters: usize,
    /// The weight file that a new run starts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<PathBuf>,
    /// The data source's name.
    pub source: String,
    /// The input and the target of a sample, in words.
    pub sample: String,
    /// Samples of the training set.
    pub train_samples: usize,
    /// Samples of the held-out set.
    pub test_samples: usize,
    /// The devices, separated by commas.
    pub device: String,
    /// The strategy of several devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<&'static str>,
    /// The number of replicas.
    pub world_size: usize,
    /// Samples of an optimizer step, over all devices.
    pub batch: usize,
    /// Their tokens, where samples are tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_tokens: Option<usize>,
    /// Samples of a forward and backward pass on one device.
    pub micro_batch: usize,
    /// The memory policy in words: `bf16 · recompute stages`.
    pub policy: String,
    /// Optimizer steps of the whole run.
    pub steps: usize,
    /// Optimizer steps of an epoch.
    pub steps_per_epoch: usize,
    /// Optimizer steps before the resume.
    pub first_step: usize,
    /// The checkpoint that the run resumes from.
    pub resumed_from: Option<PathBuf>,
    /// Whether the program measures CPU memory, with `install_meter!`.
    pub metered: bool,
    /// The planned peak of a step and an evaluation batch.
    pub planned_peak_bytes: Bytes,
    /// The planned seconds of a step, if the speed of the device is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_step_seconds: Option<f64>,
    /// The planned seconds of the steps to come, with their evaluations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_seconds: Option<f64>,
    /// The limit of the device, if known.
    pub limit_bytes: Option<Bytes>,
    /// The version of oomph.
    pub version: &'static str,
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

/// Metrics of the steps since the last such event.
#[derive(Clone, Debug, Serialize)]
pub struct StepMetrics {
    /// Optimizer steps done.
    pub step: usize,
    /// The epoch of that step, from 1.
    pub epoch: usize,
    /// Mean loss over the samples of these steps. Skipped steps whose loss is not finite are left out.
    pub loss: f64,
    /// The share of correct predictions, each made before its step.
    pub accuracy: Option<f64>,
    /// The learning rate of the last step.
    pub lr: f64,
    /// The norms of the last step. Absent if the step was skipped, or done before a resume.
    #[serde(flatten)]
    pub norms: Option<StepNorms>,
    /// The loss scale of the next step, with fp16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<f32>,
    /// Steps of the run that were skipped for a gradient that is not finite, with fp16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_steps: Option<usize>,
    /// The speed, without evaluation and saving.
    #[serde(flatten)]
    pub speed: Throughput,
    /// Bytes in use on the device.
    pub in_use_bytes: Bytes,
    /// The peak in use since the run began. On a GPU, the highest reading at such an event.
    pub peak_in_use_bytes: Bytes,
    /// Bytes in use at the peak of the last step, by category. On the CPU only, if allocations are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_peak_bytes: Option<Split>,
    /// Reserved bytes of a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<Bytes>,
    /// The most bytes of a GPU's pages: an upper bound of the peak in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_peak_bytes: Option<Bytes>,
    /// Seconds since this process began the run.
    pub seconds: f64,
}

/// How fast steps were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Throughput {
    /// Samples per second.
    pub samples_per_second: f64,
    /// Tokens per second, where samples are tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
}

/// L2 norms of a step. Each is that of all tensors of all devices as one vector.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepNorms {
    /// The norm of the gradients, unscaled and before clipping.
    pub gradient_norm: f64,
    /// The norm of the trained parameters after the step.
    pub parameter_norm: f64,
}

/// Metrics of an evaluation.
#[derive(Clone, Debug, Serialize)]
pub struct EvalMetrics {
    /// Optimizer steps done.
    pub step: usize,
    /// The epoch of the last step, from 1.
    pub epoch: usize,
    /// Mean loss over the held-out samples.
    pub eval_loss: f64,
    /// The share of correct predictions; of tokens, for language models.
    pub eval_accuracy: Option<f64>,
    /// The perplexity of a language model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_perplexity: Option<f64>,
    /// The loss in bits for each byte of the held-out text, of language models of characters or byte pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_bits_per_byte: Option<f64>,
    /// Scores of the predictions.
    #[serde(flatten)]
    pub scores: EvalScores,
    /// Evaluated samples.
    pub samples: usize,
    /// Whether the weights are averages over steps, with `train.ema` or `train.swa`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub averaged: bool,
    /// Whether this evaluation is the best so far.
    pub best: bool,
    /// Seconds of the evaluation.
    pub eval_seconds: f64,
    /// Measures of a callback, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub measures: BTreeMap<String, f64>,
}

/// Scores of the predictions of an evaluation, as far as the task offers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct EvalScores {
    /// The share of samples whose class is among the five likeliest, if there are more than five.
    #[serde(rename = "eval_top_5_accuracy", skip_serializing_if = "Option::is_none")]
    pub top_5_accuracy: Option<f64>,
    /// F1, averaged over classes or labels.
    #[serde(rename = "eval_macro_f1", skip_serializing_if = "Option::is_none")]
    pub macro_f1: Option<f64>,
    /// F1 of all labels together.
    #[serde(rename = "eval_micro_f1", skip_serializing_if = "Option::is_none")]
    pub micro_f1: Option<f64>,
    /// The average precision of labels, averaged over them.
    #[serde(rename = "eval_map", skip_serializing_if = "Option::is_none")]
    pub map: Option<f64>,
    /// The mean absolute error of a regression, in the units of the targets as the model sees them.
    #[serde(rename = "eval_mae", skip_serializing_if = "Option::is_none")]
    pub mae: Option<f64>,
    /// The root of the mean squared error of a regression, in the same units.
    #[serde(rename = "eval_rmse", skip_serializing_if = "Option::is_none")]
    pub rmse: Option<f64>,
    /// The coefficient of determination R² of a regression.
    #[serde(rename = "eval_r2", skip_serializing_if = "Option::is_none")]
    pub r2: Option<f64>,
}

/// Memory that grows from step to step, or from evaluation batch to evaluation batch.
#[derive(Clone, Debug, Serialize)]
pub struct LeakMetrics {
    /// Optimizer steps done. `None` in an evaluation outside of a run.
    pub step: Option<usize>,
    /// The points that were compared.
    pub point: LeakPoint,
    /// Growth per step or evaluation batch.
    pub bytes_per_step: Bytes,
    /// Growth since the leak was first seen.
    pub grown_bytes: Bytes,
    /// Steps or evaluation batches of that growth.
    pub steps: u64,
    /// Steps or evaluation batches until the limit is reached, if there is a limit.
    pub steps_left: Option<u64>,
    /// Bytes in use on the device.
    pub in_use_bytes: Bytes,
    /// The limit of the device, if known.
    pub limit_bytes: Option<Bytes>,
    /// The leaked blocks of each step: the phase with most bytes first, and the largest kinds of a phase first.
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

/// Leaked blocks of one size, phase and scope.
#[derive(Clone, Debug, Serialize)]
pub struct LeakKind {
    /// Blocks per step.
    pub count: u64,
    /// The size of a block.
    pub bytes: Bytes,
    /// The phase of their allocation.
    pub phase: Phase,
    /// The stage or layer of their allocation; empty outside of any.
    pub scope: String,
}

/// The settings that make a training fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Adapted {
    /// Optimizer steps done.
    pub step: usize,
    /// The changed keys and their new values.
    pub settings: BTreeMap<String, String>,
    /// The planned peak with the new values.
    pub planned_peak_bytes: Bytes,
    /// The error or the plan that did not fit.
    pub because: String,
}

impl fmt::Display for Adapted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { because, settings, planned_peak_bytes, .. } = self;
        write!(f, "{because}: continuing with {}, planned peak {planned_peak_bytes}", listed(settings))
    }
}

/// The settings that `memory.fit = "auto"` chose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// The changed keys and their new values.
    pub settings: BTreeMap<String, String>,
    /// The planned peak with them.
    pub planned_peak_bytes: Bytes,
}

impl fmt::Display for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, planned_peak_bytes } = self;
        write!(f, "`memory.fit` chose {}: planned peak {planned_peak_bytes}", listed(settings))
    }
}

/// `` `memory.micro_batch=8`, `memory.gradients=release` ``.
fn listed(settings: &BTreeMap<String, String>) -> String {
    let settings: Vec<_> = settings.iter().map(|(key, value)| format!("`{key}={value}`")).collect();
    settings.join(", ")
}

/// A checkpoint on disk.
#[derive(Clone, Debug, Serialize)]
pub struct Saved {
    /// Optimizer steps done.
    pub step: usize,
    /// The directory.
    pub checkpoint: PathBuf,
    /// Seconds from the begin of the save until the checkpoint was on disk.
    pub save_seconds: f64,
    /// Seconds of these in which the training stood still: to copy its state, and to wait for the disk.
    pub paused_seconds: f64,
}

/// How a run ended.
#[derive(Clone, Debug, Serialize)]
pub struct Done {
    /// Optimizer steps done, those before a resume included.
    pub step: usize,
    /// Mean training loss at the last reading.
    pub loss: Option<f64>,
    /// Loss of the last evaluation.
    pub eval_loss: Option<f64>,
    /// Accuracy of the last evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_accuracy: Option<f64>,
    /// Perplexity of the last evaluation, of language models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_perplexity: Option<f64>,
    /// Bits for each byte at the last evaluation, of language models of characters or byte pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_bits_per_byte: Option<f64>,
    /// The measure that the best evaluation is found by.
    pub best_metric: EvalMetric,
    /// Its value at the best evaluation of the run.
    pub best_value: Option<f64>,
    /// The best value, if the measure is the evaluation loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_eval_loss: Option<f64>,
    /// The step of the best evaluation.
    pub best_step: Option<usize>,
    /// The speed over all steps of this process, without evaluation and saving.
    #[serde(flatten)]
    pub speed: Throughput,
    /// The peak in use on the device. On a GPU, the highest reading between steps.
    pub peak_in_use_bytes: Bytes,
    /// The most bytes that a GPU was found to have reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_reserved_bytes: Option<Bytes>,
    /// Metrics of each device, if this process has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceMetrics>,
    /// Unreadable training samples that were skipped, each time that they came up in this process.
    pub skipped_samples: usize,
    /// Steps of the run that were skipped for a gradient that is not finite, with fp16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_steps: Option<usize>,
    /// The run directory.
    pub run_dir: PathBuf,
    /// The last checkpoint.
    pub checkpoint: PathBuf,
    /// Seconds of this process.
    pub seconds: f64,
    /// Why it ended.
    pub ended: Ended,
}

/// One of several devices that train together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceMetrics {
    /// Its name.
    pub device: String,
    /// The first and the last stage of its model part, if the model is split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<[String; 2]>,
    /// Its peak in use, if measured: on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_in_use_bytes: Option<Bytes>,
    /// The idle share of forward and backward, if the model is split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_share: Option<f64>,
    /// Seconds of all-reduces in flight, and the seconds of them in which the device waited after backward. With replicas
    /// only.
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
    /// A callback of the program ended it.
    Callback,
    /// It has trained up to the step at which it was asked to pause.
    Paused,
    /// SIGINT.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

/// A moment of a run for progress bars, too frequent for an [`Event`].
#[derive(Clone, Copy, Debug)]
pub enum Tick {
    /// An optimizer step is done.
    Step {
        /// Optimizer steps done.
        step: usize,
    },
    /// An evaluation batch is done.
    Eval {
        /// Batches done.
        batch: usize,
        /// Batches of the evaluation.
        batches: usize,
    },
}

/// Receives the events of a run.
pub trait Observer {
    /// Receives an event.
    fn event(&mut self, event: &Event);

    /// Receives a tick.
    fn tick(&mut self, _tick: Tick) {}
}

/// An observer that ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Observer for Quiet {
    fn event(&mut self, _event: &Event) {}
}
