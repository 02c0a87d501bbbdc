//! `[schedule]`.

use crate::{
    error::ConfigError,
    precedence::{Owners, Rule},
    range::POSITIVE,
    section::Section,
};

/// `[schedule]`: the factor on `optimizer.lr` over the course of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// `warmup_steps` or `warmup_epochs`, and `warmup_start`: a linear rise before the schedule; none by default. Not with
    /// `one-cycle`, which has its own.
    pub warmup: Option<Warmup>,
    /// `name` and the schedule's own settings; default `constant`.
    pub kind: ScheduleKind,
}

/// A linear rise of the learning rate (Goyal et al. 2017, <https://arxiv.org/abs/1706.02677>).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmup {
    /// `warmup_steps` or `warmup_epochs`: when the rate is full.
    pub length: WarmupLength,
    /// `warmup_start`: the factor of the first step, from 0 to 1; default 0.
    pub start: f64,
}

/// The length of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmupLength {
    /// `warmup_steps`: optimizer steps, at least 1.
    Steps(usize),
    /// `warmup_epochs`: epochs, at least 1.
    Epochs(usize),
}

impl WarmupLength {
    /// The length in optimizer steps.
    pub fn steps(self, steps_per_epoch: usize) -> usize {
        match self {
            Self::Steps(steps) => steps,
            Self::Epochs(epochs) => epochs.saturating_mul(steps_per_epoch),
        }
    }
}

/// A schedule with its own settings.
#[derive(Clone, Debug, PartialEq)]
pub enum ScheduleKind {
    /// `constant`: the rate does not change.
    Constant,
    /// `cosine`: half a cosine from the rate to `final_lr` (Loshchilov and Hutter 2017,
    /// <https://arxiv.org/abs/1608.03983>, without restarts).
    Cosine {
        /// `final_lr`: the rate at the end, at least 0; default 0.
        final_lr: f64,
    },
    /// `polynomial`: from the rate to `final_lr` by a power of what is left of the run, as PyTorch's `PolynomialLR`.
    Polynomial {
        /// `final_lr`: the rate at the end, at least 0; default 0.
        final_lr: f64,
        /// `power`: greater than 0; default 1, a straight line.
        power: f64,
    },
    /// `exponential`: from the rate to `final_lr` by a constant factor a step, as PyTorch's `ExponentialLR`.
    Exponential {
        /// `final_lr`: the rate at the end, greater than 0. It may be above the rate.
        final_lr: f64,
    },
    /// `step`: the rate is multiplied by `gamma` at fixed times.
    Step {
        /// `every_epochs`, `every_steps` or `milestones_epochs`: when.
        at: Drops,
        /// `gamma`: from 0 to 1; default 0.1.
        gamma: f64,
    },
    /// `one-cycle`: up from `lr / div` to `lr`, then down to `lr / div / final_div` (Smith and Topin 2018,
    /// <https://arxiv.org/abs/1708.07120>), with two phases as PyTorch's `OneCycleLR`; `optimizer.lr` is its maximum.
    OneCycle {
        /// `warmup_fraction`: the part of the run that goes up, from 0 up to but not including 1; default 0.3.
        warmup_fraction: f64,
        /// `div`: the maximum over the first rate, at least 1; default 25.
        div: f64,
        /// `final_div`: the first rate over the last, at least 1; default 10,000.
        final_div: f64,
        /// `anneal`: `cosine` or `linear`; default `cosine`.
        anneal: Anneal,
    },
}

/// When the rate of a `step` schedule drops; exactly one is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drops {
    /// `every_epochs`: after each multiple of this number of epochs, at least 1.
    EveryEpochs(usize),
    /// `every_steps`: after each multiple of this number of optimizer steps, at least 1.
    EverySteps(usize),
    /// `milestones_epochs`: after these epochs, each at least 1, in rising order.
    AfterEpochs(Vec<usize>),
}

/// The shape of the two phases of a one-cycle schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anneal {
    /// `cosine`: half a cosine.
    Cosine,
    /// `linear`: a straight line.
    Linear,
}

#[derive(Clone, Copy)]
enum ScheduleName {
    Constant,
    Cosine,
    Polynomial,
    Exponential,
    Step,
    OneCycle,
}

const NAMES: [(&str, ScheduleName); 6] = [
    ("constant", ScheduleName::Constant),
    ("cosine", ScheduleName::Cosine),
    ("polynomial", ScheduleName::Polynomial),
    ("exponential", ScheduleName::Exponential),
    ("step", ScheduleName::Step),
    ("one-cycle", ScheduleName::OneCycle),
];

const ANNEALS: [(&str, Anneal); 2] = [("cosine", Anneal::Cosine), ("linear", Anneal::Linear)];

const WITH_WARMUP: &[&str] = &["constant", "cosine", "polynomial", "exponential", "step"];

const OWNERS: &Owners = &[
    ("warmup_steps", WITH_WARMUP),
    ("warmup_epochs", WITH_WARMUP),
    ("warmup_start", WITH_WARMUP),
    ("final_lr", &["cosine", "polynomial", "exponential"]),
    ("power", &["polynomial"]),
    ("every_epochs", &["step"]),
    ("every_steps", &["step"]),
    ("milestones_epochs", &["step"]),
    ("gamma", &["step"]),
    ("warmup_fraction", &["one-cycle"]),
    ("div", &["one-cycle"]),
    ("final_div", &["one-cycle"]),
    ("anneal", &["one-cycle"]),
];

impl Schedule {
    pub(crate) fn read(section: &Section) -> Result<Self, ConfigError> {
        let name = section.choice("name", "constant", &NAMES)?;
        section.ledger.keep_applicable("name", OWNERS)?;
        let kind = match name {
            ScheduleName::Constant => ScheduleKind::Constant,
            ScheduleName::Cosine => {
                ScheduleKind::Cosine { final_lr: section.number("final_lr", 0.0, 0.0..)? }
            }
            ScheduleName::Polynomial => ScheduleKind::Polynomial {
                final_lr: section.number("final_lr", 0.0, 0.0..)?,
                power: section.number("power", 1.0, POSITIVE)?,
            },
            ScheduleName::Exponential => {
                let missing = || ConfigError::Missing {
                    key: section.ledger.full("final_lr"),
                    expected: "the rate at the end, greater than 0".to_owned(),
                };
                let final_lr = section.optional_number("final_lr", POSITIVE)?.ok_or_else(missing)?;
                ScheduleKind::Exponential { final_lr }
            }
            ScheduleName::Step => ScheduleKind::Step {
                at: Drops::read(section)?,
                gamma: section.number("gamma", 0.1, 0.0..=1.0)?,
            },
            ScheduleName::OneCycle => ScheduleKind::OneCycle {
                warmup_fraction: section.number("warmup_fraction", 0.3, 0.0..1.0)?,
                div: section.number("div", 25.0, 1.0..)?,
                final_div: section.number("final_div", 1e4, 1.0..)?,
                anneal: section.choice("anneal", "cosine", &ANNEALS)?,
            },
        };
        let warmup = if matches!(name, ScheduleName::OneCycle) { None } else { Warmup::read(section)? };
        Ok(Self { warmup, kind })
    }
}

impl ScheduleKind {
    /// The name, as `schedule.name` has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Cosine { .. } => "cosine",
            Self::Polynomial { .. } => "polynomial",
            Self::Exponential { .. } => "exponential",
            Self::Step { .. } => "step",
            Self::OneCycle { .. } => "one-cycle",
        }
    }
}

impl Warmup {
    fn read(section: &Section) -> Result<Option<Self>, ConfigError> {
        section.ledger.keep_one(&["warmup_steps", "warmup_epochs"], &ONE_WARMUP)?;
        let epochs = section.optional_integer("warmup_epochs", 1..)?.map(WarmupLength::Epochs);
        let steps = section.integer("warmup_steps", 0, ..)?;
        let Some(length) = epochs.or((steps > 0).then_some(WarmupLength::Steps(steps))) else {
            section.ledger.yield_to("warmup_start", "warmup_steps", &START_NEEDS_STEPS)?;
            return Ok(None);
        };
        Ok(Some(Self { length, start: section.number("warmup_start", 0.0, 0.0..=1.0)? }))
    }
}

const ONE_WARMUP: Rule = Rule { says: "a warm-up has one length", fix: "keep one of the two" };
const START_NEEDS_STEPS: Rule = Rule {
    says: "it has no effect without warm-up",
    fix: "set `schedule.warmup_steps` to at least 1, or remove `schedule.warmup_start`",
};

impl Drops {
    fn read(section: &Section) -> Result<Self, ConfigError> {
        section.ledger.keep_one(&["every_epochs", "every_steps", "milestones_epochs"], &ONE_TIMING)?;
        let epochs = section.optional_integer("every_epochs", 1..)?;
        let steps = section.optional_integer("every_steps", 1..)?;
        if section.contains("milestones_epochs") {
            let milestones = section.integers("milestones_epochs", &[])?;
            let rising = milestones.is_sorted_by(|one, next| one < next);
            if rising && milestones.first().is_some_and(|first| *first >= 1) {
                return Ok(Self::AfterEpochs(milestones));
            }
            let expected = "epochs of at least 1 in rising order, such as `[30, 60]`";
            return Err(section.invalid("milestones_epochs", expected));
        }
        epochs.map(Self::EveryEpochs).or(steps.map(Self::EverySteps)).ok_or_else(|| ConfigError::Missing {
            key: section.ledger.full("every_epochs"),
            expected: "one of `every_epochs`, `every_steps` and `milestones_epochs` with the schedule `step`"
                .to_owned(),
        })
    }
}

const ONE_TIMING: Rule = Rule { says: "a `step` schedule takes one timing", fix: "keep one of the two" };
