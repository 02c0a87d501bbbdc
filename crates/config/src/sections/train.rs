//! `[train]`.

use super::{averaging::Averaging, batch::BatchSize, class_weights::ClassWeights};
use crate::{
    error::ConfigError,
    interval::{Interval, IntervalUnits},
    precedence::{Rule, clash},
    section::Section,
    sections::eval_metric::EvalMetric,
};

/// `[train]`: the length of a training and its batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Train {
    /// When training ends: `epochs` and `steps`.
    pub length: Length,
    /// `batch`: samples of one optimizer step over all devices; from 1 to a billion, default 32.
    pub batch: usize,
    /// `batch` in tokens, if it is given as those: a multiple of `data.steps`.
    pub batch_tokens: Option<usize>,
    /// `eval_batch`: samples of one forward pass of evaluation; at least 1, by default the micro-batch.
    pub eval_batch: Option<usize>,
    /// `seed`: the seed of all randomness in a run; default 0.
    pub seed: u64,
    /// `eval_every`: the interval of evaluations in epochs or steps, or `never`; default `1 epoch`.
    pub eval_every: Interval,
    /// `task`: the name of a registered task; by default the one for the target of the data.
    pub task: Option<String>,
    /// `label_smoothing`: share of the target given to all classes alike, from 0 up to but not including 1; default 0
    /// (Szegedy et al. 2016, <https://arxiv.org/abs/1512.00567>, section 7).
    pub label_smoothing: f64,
    /// `class_weights`: how the classes count in the loss; default `none`.
    pub class_weights: ClassWeights,
    /// `ema` or `swa`, with their settings: the average of the weights; by default there is none.
    pub average: Option<Averaging>,
    /// `best`: the measure that the best evaluation is found by; default `eval loss`.
    pub best: EvalMetric,
    /// `patience`: evaluations without improvement before training stops early; at least 1, by default it never does.
    pub patience: Option<usize>,
    /// `min_delta`: by how much `best` must get better to count as improvement; at least 0, default 0.
    pub min_delta: f64,
}

/// When training ends: at whichever comes first. At least one is set; the default is 10 epochs.
///
/// `epochs` or `steps` of a higher layer replaces the other one of a lower layer: `--set train.steps=50` trains 50
/// steps, whatever `train.epochs` of the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Passes over the training data, at least 1.
    pub epochs: Option<usize>,
    /// Optimizer steps, at least 1.
    pub steps: Option<usize>,
}

const DEFAULT_EPOCHS: usize = 10;

/// The largest batch: with it, shapes and bytes of any real model stay far below 64 bits.
pub const MOST_SAMPLES: usize = 1_000_000_000;

impl Train {
    /// Reads the section. `data` has the tokens of a sample.
    pub(crate) fn read(section: &Section, data: &Section) -> Result<Self, ConfigError> {
        let length = Length::read(section)?;
        let BatchSize { samples: batch, tokens: batch_tokens } = BatchSize::read(section, data)?;
        let train = Self {
            length,
            batch,
            batch_tokens,
            eval_batch: section.optional_integer("eval_batch", 1..=MOST_SAMPLES)?,
            seed: section.unsigned("seed", 0)?,
            eval_every: Interval::Epochs(1).read(section, "eval_every", IntervalUnits::Progress)?,
            task: section.optional_string("task")?,
            label_smoothing: section.number("label_smoothing", 0.0, 0.0..1.0)?,
            class_weights: ClassWeights::read(section)?,
            average: Averaging::read(section)?,
            best: section.choice("best", EvalMetric::default().name(), &EvalMetric::NAMES)?,
            patience: section.optional_integer("patience", 1..)?,
            min_delta: section.number("min_delta", 0.0, 0.0..)?,
        };
        if train.min_delta > 0.0 && train.patience.is_none() {
            let expected = "`train.patience` to be set too; without it `min_delta` has no effect";
            return Err(section.invalid("min_delta", expected));
        }
        if train.eval_every == Interval::Never
            && let (Some(patience), Some(eval_every)) =
                (section.ledger.given("patience"), section.ledger.setting("eval_every"))
        {
            return Err(clash(patience, eval_every, &PATIENCE_NEEDS_EVALUATION));
        }
        if train.eval_every == Interval::Never {
            section.has_no_effect("eval_batch", "`train.eval_every` is `never`");
            section.has_no_effect("best", "`train.eval_every` is `never`");
        }
        Ok(train)
    }
}

const PATIENCE_NEEDS_EVALUATION: Rule = Rule {
    says: "early stopping needs evaluations",
    fix: "set `train.eval_every` to an interval such as `1 epoch`, or remove `train.patience`",
};

impl Length {
    fn read(section: &Section) -> Result<Self, ConfigError> {
        section.ledger.keep_highest(&["epochs", "steps"]);
        let epochs = section.optional_integer("epochs", 1..)?;
        let steps = section.optional_integer("steps", 1..)?;
        if epochs.is_some() || steps.is_some() {
            return Ok(Self { epochs, steps });
        }
        Ok(Self { epochs: Some(section.integer("epochs", DEFAULT_EPOCHS, 1..)?), steps })
    }
}
