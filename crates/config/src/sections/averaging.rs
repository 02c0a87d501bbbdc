//! Averages of the weights, in `[train]`.

use crate::{
    error::ConfigError,
    interval::{Interval, IntervalUnits},
    precedence::Rule,
    range::{INSIDE_UNIT, POSITIVE},
    section::Section,
};

/// An average of the weights that is kept beside them: by `ema` or by `swa`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Averaging {
    /// An exponential moving average over steps.
    Ema(Ema),
    /// The mean of the weights at the ends of intervals, late in the training.
    Swa(Swa),
}

/// The exponential moving average of the weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ema {
    /// `ema`: the share of the average that each step keeps, between 0 and 1.
    pub decay: f64,
    /// `ema_warmup`: whether the first steps keep less; default `true`.
    pub warmup: bool,
}

/// Stochastic weight averaging (Izmailov et al. 2018, <https://arxiv.org/abs/1803.05407>).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Swa {
    /// `swa`: the share of the training before it begins, between 0 and 1.
    pub start: f64,
    /// `swa_every`: the interval at whose ends weights are added; default `1 epoch`.
    pub every: Interval,
    /// `swa_lr`: the learning rate at the end of the first interval and from then on, greater than 0. By default the
    /// schedule decides alone.
    pub lr: Option<f64>,
}

impl Averaging {
    pub(super) fn read(section: &Section) -> Result<Option<Self>, ConfigError> {
        section.ledger.keep_one(&["ema", "swa"], &ONE_AVERAGE)?;
        let ema = Ema::read(section)?;
        let swa = Swa::read(section)?;
        Ok(ema.map(Self::Ema).or(swa.map(Self::Swa)))
    }
}

const ONE_AVERAGE: Rule =
    Rule { says: "a training keeps one average of its weights", fix: "keep one of the two" };

impl Ema {
    fn read(section: &Section) -> Result<Option<Self>, ConfigError> {
        let decay = section.optional_number("ema", INSIDE_UNIT)?;
        let warmup = section.boolean("ema_warmup", true)?;
        if decay.is_none() {
            section.has_no_effect("ema_warmup", "`train.ema` is not set");
        }
        Ok(decay.map(|decay| Self { decay, warmup }))
    }
}

impl Swa {
    fn read(section: &Section) -> Result<Option<Self>, ConfigError> {
        let start = section.optional_number("swa", INSIDE_UNIT)?;
        let every = Interval::Epochs(1).read(section, "swa_every", IntervalUnits::Progress)?;
        let lr = section.optional_number("swa_lr", POSITIVE)?;
        if every == Interval::Never {
            return Err(section.invalid("swa_every", "an interval such as `1 epoch` or `200 steps`"));
        }
        if start.is_none() {
            section.has_no_effect("swa_every", "`train.swa` is not set");
            section.has_no_effect("swa_lr", "`train.swa` is not set");
        }
        Ok(start.map(|start| Self { start, every, lr }))
    }

    /// The number of steps of a training of `steps` before averaging begins.
    pub fn first_step(&self, steps: usize) -> usize {
        (self.start * steps as f64).round() as usize
    }

    /// The steps of an interval.
    pub fn interval_steps(&self, steps_per_epoch: usize) -> usize {
        match self.every {
            Interval::Epochs(epochs) => epochs.saturating_mul(steps_per_epoch.max(1)),
            Interval::Steps(steps) => steps,
            // The key takes neither.
            Interval::Minutes(_) | Interval::Never => usize::MAX,
        }
    }
}
