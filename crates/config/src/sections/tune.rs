//! `[tune]`.

use std::time::Duration;

use super::space::Parameter;
use crate::{
    error::ConfigError,
    precedence::Rule,
    section::{ANY_UNSIGNED, Refused, Section, as_integer, as_unsigned, name_of},
    value::Value,
};

/// `[tune]`: a search for good values of other keys. Only `oomph tune` reads it.
///
/// [`Config::space`](crate::Config::space) gives the keys that are searched, which are below `[tune.space]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tune {
    /// `metric`: the measure that a study improves; default `eval loss`.
    pub metric: Metric,
    /// `sampler`: the source of new points; default `tpe`.
    pub sampler: Sampler,
    /// `startup`: evenly spread trials before the first that `tpe` chooses; at least 1, default 10.
    pub startup: usize,
    /// `scheduler`: the rule by which trials end early; default `asha`.
    pub scheduler: Scheduler,
    /// `trials`: trials of the whole study, from 1 to 1,000,000; default 100.
    pub trials: usize,
    /// `min_epochs` or `min_steps`: the length after which trials are first compared; at least 1, default one epoch.
    pub min_length: MinLength,
    /// `eta`: a trial continues if it is among the best 1/eta; from 2 to 100, default 3.
    pub eta: usize,
    /// `parallel`: trials at the same time; default `auto`.
    pub parallel: Parallel,
    /// `on_too_large`: what happens to a point that does not fit into memory; default `adapt`.
    pub on_too_large: OnTooLarge,
    /// `deterministic`: whether decisions depend on the results of earlier trials in their order alone, not on time;
    /// default `false`.
    pub deterministic: bool,
    /// `lease`: the time without a sign of life after which the trial of a worker is free again; from 0.1
    /// seconds to a year, default 120 seconds.
    pub lease: Duration,
    /// `checkpoints`: the checkpoints that stay on disk; default `promotable`.
    pub checkpoints: Checkpoints,
    /// `seed`: the seed of the study's decisions; by default `train.seed`.
    pub seed: u64,
    /// `[tune.space]`, before conditions on keys that are not searched are decided.
    pub(crate) space: Vec<Parameter>,
}

/// The measure that a study improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// `eval loss`.
    EvalLoss,
    /// `eval accuracy`.
    EvalAccuracy,
    /// `perplexity`: e to the power of the evaluation loss.
    Perplexity,
    /// `train loss`.
    TrainLoss,
    /// `samples per second`.
    SamplesPerSecond,
    /// `peak in use`: bytes.
    PeakInUse,
}

/// The source of new points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// `tpe`: the tree-structured Parzen estimator (Bergstra et al. 2011).
    Tpe,
    /// `grid`: every point in turn.
    Grid,
    /// `random`: uniform.
    Random,
    /// `sobol`: a sequence of low discrepancy (Sobol 1967).
    Sobol,
}

/// The rule by which trials end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// `asha`: the best 1/eta continue (Li et al. 2020, <https://arxiv.org/abs/1810.05934>).
    Asha,
    /// `none`: every trial is trained to its end.
    None,
    /// `median`: a trial worse than the median of those before it ends.
    Median,
    /// `hyperband`: several brackets of `asha` (Li et al. 2018, <https://arxiv.org/abs/1603.06560>).
    Hyperband,
}

/// The length after which trials are first compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinLength {
    /// `min_epochs`: epochs, at least 1.
    Epochs(usize),
    /// `min_steps`: optimizer steps, at least 1.
    Steps(usize),
}

/// The number of trials at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// `auto`: as many as planned peaks and devices allow.
    Auto,
    /// A number of trials, from 1 to 1,024.
    Trials(usize),
}

/// What happens to a point that does not fit into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTooLarge {
    /// `adapt`: levers that keep the mathematics make it fit.
    Adapt,
    /// `avoid`: the sampler takes its best candidate that fits.
    Avoid,
    /// `refuse`: it is recorded as infeasible.
    Refuse,
}

/// The checkpoints of trials that stay on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoints {
    /// `promotable`: those of trials that may still continue, and that of the best trial.
    Promotable,
    /// `all`.
    All,
    /// `best`: that of the best trial.
    Best,
}

const METRICS: [(&str, Metric); 6] = [
    ("eval loss", Metric::EvalLoss),
    ("eval accuracy", Metric::EvalAccuracy),
    ("perplexity", Metric::Perplexity),
    ("train loss", Metric::TrainLoss),
    ("samples per second", Metric::SamplesPerSecond),
    ("peak in use", Metric::PeakInUse),
];

const SAMPLERS: [(&str, Sampler); 4] =
    [("tpe", Sampler::Tpe), ("grid", Sampler::Grid), ("random", Sampler::Random), ("sobol", Sampler::Sobol)];

const SCHEDULERS: [(&str, Scheduler); 4] = [
    ("asha", Scheduler::Asha),
    ("none", Scheduler::None),
    ("median", Scheduler::Median),
    ("hyperband", Scheduler::Hyperband),
];

const ON_TOO_LARGE: [(&str, OnTooLarge); 3] =
    [("adapt", OnTooLarge::Adapt), ("avoid", OnTooLarge::Avoid), ("refuse", OnTooLarge::Refuse)];

const CHECKPOINTS: [(&str, Checkpoints); 3] =
    [("promotable", Checkpoints::Promotable), ("all", Checkpoints::All), ("best", Checkpoints::Best)];

const MOST_TRIALS: usize = 1_000_000;

/// More than any machine trains at once.
const MOST_PARALLEL: usize = 1024;

const MOST_ETA: usize = 100;

/// A worker renews its lease several times within it.
const LEAST_SECONDS: f64 = 0.1;

/// A year.
const MOST_SECONDS: f64 = 31_536_000.0;

const ONE_MIN_LENGTH: Rule =
    Rule { says: "trials are first compared after one length", fix: "keep one of the two" };

impl Metric {
    /// As `tune.metric` has it.
    pub fn name(self) -> &'static str {
        name_of(&METRICS, &self)
    }

    /// Whether larger values are better.
    pub fn is_maximized(self) -> bool {
        matches!(self, Self::EvalAccuracy | Self::SamplesPerSecond)
    }

    /// Whether evaluations measure it.
    pub fn needs_evaluation(self) -> bool {
        matches!(self, Self::EvalLoss | Self::EvalAccuracy | Self::Perplexity)
    }
}

impl Sampler {
    /// As `tune.sampler` has it.
    pub fn name(self) -> &'static str {
        name_of(&SAMPLERS, &self)
    }
}

impl Scheduler {
    /// As `tune.scheduler` has it.
    pub fn name(self) -> &'static str {
        name_of(&SCHEDULERS, &self)
    }
}

impl OnTooLarge {
    /// As `tune.on_too_large` has it.
    pub fn name(self) -> &'static str {
        name_of(&ON_TOO_LARGE, &self)
    }
}

impl Checkpoints {
    /// As `tune.checkpoints` has it.
    pub fn name(self) -> &'static str {
        name_of(&CHECKPOINTS, &self)
    }
}

impl Tune {
    /// Reads the section; `None` if no key of it is given. `seed` is `train.seed`; `sections` are all of the
    /// configuration.
    pub(crate) fn read(
        section: &Section,
        sections: &[Section],
        seed: u64,
    ) -> Result<Option<Self>, ConfigError> {
        if section.ledger.all_given().is_empty() {
            return Ok(None);
        }
        let metric = section.choice("metric", "eval loss", &METRICS)?;
        let sampler = section.choice("sampler", "tpe", &SAMPLERS)?;
        let scheduler = section.choice("scheduler", "asha", &SCHEDULERS)?;
        let tune = Self {
            metric,
            sampler,
            startup: section.integer("startup", 10, 1..=MOST_TRIALS)?,
            scheduler,
            trials: section.integer("trials", 100, 1..=MOST_TRIALS)?,
            min_length: MinLength::read(section)?,
            eta: section.integer("eta", 3, 2..=MOST_ETA)?,
            parallel: Parallel::read(section)?,
            on_too_large: section.choice("on_too_large", "adapt", &ON_TOO_LARGE)?,
            deterministic: section.boolean("deterministic", false)?,
            lease: read_lease(section)?,
            checkpoints: section.choice("checkpoints", "promotable", &CHECKPOINTS)?,
            seed: section.read("seed", ANY_UNSIGNED, as_unsigned)?.unwrap_or(seed),
            space: Parameter::read_all(section, sections, sampler, scheduler)?,
        };
        tune.note_idle(section);
        Ok(Some(tune))
    }

    /// Notes the keys that the sampler and the scheduler have no use for.
    fn note_idle(&self, section: &Section) {
        if self.sampler != Sampler::Tpe {
            let because = format!("`tune.sampler` is `{}`", self.sampler.name());
            section.has_no_effect("startup", because);
        }
        let because = || format!("`tune.scheduler` is `{}`", self.scheduler.name());
        if matches!(self.scheduler, Scheduler::None | Scheduler::Median) {
            section.has_no_effect("eta", because());
        }
        if self.scheduler == Scheduler::None {
            section.has_no_effect("min_epochs", because());
            section.has_no_effect("min_steps", because());
        }
    }
}

impl MinLength {
    fn read(section: &Section) -> Result<Self, ConfigError> {
        section.ledger.keep_one(&["min_epochs", "min_steps"], &ONE_MIN_LENGTH)?;
        match section.optional_integer("min_steps", 1..)? {
            Some(steps) => {
                section.optional_integer("min_epochs", 1..)?;
                Ok(Self::Steps(steps))
            }
            None => Ok(Self::Epochs(section.integer("min_epochs", 1, 1..)?)),
        }
    }
}

impl Parallel {
    fn read(section: &Section) -> Result<Self, ConfigError> {
        let expected = format!("an integer from 1 to {MOST_PARALLEL}, or `auto`");
        section.or("parallel", Self::Auto, &expected, |value| match value {
            Value::String(text) if text == "auto" => Ok(Self::Auto),
            Value::String(_) => Err(Refused::Value),
            trials => as_integer(trials, &(1..=MOST_PARALLEL)).map(Self::Trials),
        })
    }
}

impl From<Parallel> for Value {
    fn from(parallel: Parallel) -> Self {
        match parallel {
            Parallel::Auto => Self::from("auto"),
            Parallel::Trials(trials) => Self::from(trials),
        }
    }
}

fn read_lease(section: &Section) -> Result<Duration, ConfigError> {
    Ok(Duration::from_secs_f64(section.number("lease", 120.0, LEAST_SECONDS..=MOST_SECONDS)?))
}
