use crate::{
    error::ConfigError,
    precedence::{Owners, Rule},
    section::Section,
};

/// `[schedule]`: how the learning rate goes over a run, as a factor on `optimizer.lr`.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// `warmup_steps` and `warmup_start`: a linear rise before the schedule proper; by default there is none. Not with
    /// `one-cycle`, which rises by itself.
    pub warmup: Option<Warmup>,
    /// `name` and the settings that belong to it; default `constant`.
    pub kind: ScheduleKind,
}

/// A linear rise of the learning rate (Goyal et al. 2017, <https://arxiv.org/abs/1706.02677>).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmup {
    /// `warmup_steps`: optimizer steps until the full rate, at least 1.
    pub steps: usize,
    /// `warmup_start`: the factor of the first step, from 0 to 1; default 0.
    pub start: f64,
}

/// A schedule with the settings of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum ScheduleKind {
    /// `constant`: the rate stays.
    Constant,
    /// `cosine`: half a cosine from the rate to `final_lr` (Loshchilov and Hutter 2017,
    /// <https://arxiv.org/abs/1608.03983>, without restarts).
    Cosine {
        /// `final_lr`: the rate at the end, at least 0; default 0.
        final_lr: f64,
    },
    /// `step`: the rate is multiplied by `gamma` from time to time.
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
    /// `every_epochs`: after every so many epochs, at least 1.
    EveryEpochs(usize),
    /// `every_steps`: after every so many optimizer steps, at least 1.
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
enum Name {
    Constant,
    Cosine,
    Step,
    OneCycle,
}

const NAMES: [(&str, Name); 4] = [
    ("constant", Name::Constant),
    ("cosine", Name::Cosine),
    ("step", Name::Step),
    ("one-cycle", Name::OneCycle),
];

const WITH_WARMUP: &[&str] = &["constant", "cosine", "step"];

const OWNERS: &Owners = &[
    ("warmup_steps", WITH_WARMUP),
    ("warmup_start", WITH_WARMUP),
    ("final_lr", &["cosine"]),
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
        section.keep_applicable("name", OWNERS)?;
        let kind = match name {
            Name::Constant => ScheduleKind::Constant,
            Name::Cosine => ScheduleKind::Cosine { final_lr: section.number("final_lr", 0.0, 0.0..)? },
            Name::Step => ScheduleKind::Step {
                at: Drops::read(section)?,
                gamma: section.number("gamma", 0.1, 0.0..=1.0)?,
            },
            Name::OneCycle => ScheduleKind::OneCycle {
                warmup_fraction: section.number("warmup_fraction", 0.3, 0.0..1.0)?,
                div: section.number("div", 25.0, 1.0..)?,
                final_div: section.number("final_div", 1e4, 1.0..)?,
                anneal: section.choice(
                    "anneal",
                    "cosine",
                    &[("cosine", Anneal::Cosine), ("linear", Anneal::Linear)],
                )?,
            },
        };
        let warmup = if matches!(name, Name::OneCycle) { None } else { Warmup::read(section)? };
        Ok(Self { warmup, kind })
    }
}

impl ScheduleKind {
    /// The name, as `schedule.name` has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Cosine { .. } => "cosine",
            Self::Step { .. } => "step",
            Self::OneCycle { .. } => "one-cycle",
        }
    }
}

impl Warmup {
    fn read(section: &Section) -> Result<Option<Self>, ConfigError> {
        let steps = section.integer("warmup_steps", 0, ..)?;
        if steps == 0 {
            section.yield_to("warmup_start", "warmup_steps", &START_NEEDS_STEPS)?;
            return Ok(None);
        }
        Ok(Some(Self { steps, start: section.number("warmup_start", 0.0, 0.0..=1.0)? }))
    }
}

const START_NEEDS_STEPS: Rule = Rule {
    says: "it has no effect without warm-up",
    fix: "set `schedule.warmup_steps` to at least 1, or remove `schedule.warmup_start`",
};

impl Drops {
    fn read(section: &Section) -> Result<Self, ConfigError> {
        section.keep_one(&["every_epochs", "every_steps", "milestones_epochs"], &ONE_TIMING)?;
        let epochs = section.optional_integer("every_epochs", 1..)?;
        let steps = section.optional_integer("every_steps", 1..)?;
        if section.contains("milestones_epochs") {
            let milestones = section.integers("milestones_epochs", &[])?;
            let rising = milestones.is_sorted_by(|one, next| one < next);
            return if rising && milestones.first().is_some_and(|first| *first >= 1) {
                Ok(Self::AfterEpochs(milestones))
            } else {
                Err(section
                    .invalid("milestones_epochs", "epochs of at least 1 in rising order, such as `[30, 60]`"))
            };
        }
        epochs.map(Self::EveryEpochs).or(steps.map(Self::EverySteps)).ok_or_else(|| ConfigError::Missing {
            key: section.full("every_epochs"),
            expected: "one of `every_epochs`, `every_steps` and `milestones_epochs` with the schedule `step`"
                .to_owned(),
        })
    }
}

const ONE_TIMING: Rule = Rule { says: "the rate drops by one timing only", fix: "keep one of the two" };
