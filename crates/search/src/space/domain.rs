use std::fmt;

/// The values of a parameter. Both ends are values too.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Numbers.
    Float {
        /// The smallest.
        low: f64,
        /// The largest.
        high: f64,
        /// The distance between neighbours; `None`: all numbers between the ends.
        step: Option<f64>,
        /// Whether they are drawn uniformly in their logarithm. Excludes a step.
        log: bool,
    },
    /// Integers.
    Integer {
        /// The smallest.
        low: i64,
        /// The largest.
        high: i64,
        /// The distance between neighbours.
        step: i64,
        /// Whether they are drawn uniformly in their logarithm. Excludes a step above 1.
        log: bool,
    },
    /// A choice of some, without an order.
    Choice(Vec<Choice>),
}

/// A value of [`Domain::Choice`].
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// `true` or `false`.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A word.
    Text(String),
}

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => value.fmt(out),
            Self::Integer(value) => value.fmt(out),
            Self::Number(value) => value.fmt(out),
            Self::Text(text) => text.fmt(out),
        }
    }
}

/// In words: `a number from 0.001 to 0.1, on a logarithmic scale`, `an integer from 8 to 64, in steps of 8`, `sgd, adamw or lion`.
impl fmt::Display for Domain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float { low, high, step, .. } => {
                write!(out, "a number from {low} to {high}")?;
                step.iter().try_for_each(|step| write!(out, ", in steps of {step}"))?;
            }
            Self::Integer { low, high, step, .. } => {
                write!(out, "an integer from {low} to {high}")?;
                if *step > 1 {
                    write!(out, ", in steps of {step}")?;
                }
            }
            Self::Choice(choices) => {
                for (index, choice) in choices.iter().enumerate() {
                    let between = match index {
                        0 => "",
                        _ if index + 1 == choices.len() => " or ",
                        _ => ", ",
                    };
                    write!(out, "{between}{choice}")?;
                }
            }
        }
        if self.is_log() { out.write_str(", on a logarithmic scale") } else { Ok(()) }
    }
}

/// How close to a multiple of its step a number must be, in steps.
const STEP_TOLERANCE: f64 = 1e-8;

impl Domain {
    /// The smallest and the largest value as numbers: of a choice, the first and the last index.
    pub fn bounds(&self) -> [f64; 2] {
        match self {
            Self::Float { low, high, .. } => [*low, *high],
            Self::Integer { low, high, .. } => [*low as f64, *high as f64],
            Self::Choice(choices) => [0.0, choices.len().saturating_sub(1) as f64],
        }
    }

    /// The distance between neighbours; `None` where all numbers between the ends are values.
    pub fn step(&self) -> Option<f64> {
        match self {
            Self::Float { step, .. } => *step,
            Self::Integer { step, .. } => Some(*step as f64),
            Self::Choice(_) => Some(1.0),
        }
    }

    /// Whether values are drawn uniformly in their logarithm.
    pub fn is_log(&self) -> bool {
        matches!(self, Self::Float { log: true, .. } | Self::Integer { log: true, .. })
    }

    /// The number of values; `None` where all numbers between different ends are values.
    pub fn count(&self) -> Option<u64> {
        let [low, high] = self.bounds();
        match self.step() {
            _ if low == high => Some(1),
            // Above 0: `Space::new` has seen to it.
            Some(step) => Some(((high - low) / step + STEP_TOLERANCE) as u64 + 1),
            None => None,
        }
    }

    /// Whether there is nothing to choose.
    pub fn is_single(&self) -> bool {
        self.count() == Some(1)
    }

    /// The value that is closest to `number`: within the ends, and on a step.
    pub fn nearest(&self, number: f64) -> f64 {
        let [low, high] = self.bounds();
        let number = if number.is_nan() { low } else { number.clamp(low, high) };
        match self.step() {
            // Ties to even, as numpy rounds.
            Some(step) => self.stepped(libm::rint((number - low) / step) as u64),
            None => number,
        }
    }

    /// Whether `number` is a value, up to the error of adding steps.
    pub fn contains(&self, number: f64) -> bool {
        let [low, high] = self.bounds();
        let tolerance = match self {
            Self::Float { step: Some(step), .. } => STEP_TOLERANCE * step,
            _ => 0.0,
        };
        (low..=high).contains(&number) && (self.nearest(number) - number).abs() <= tolerance
    }

    /// The value below which the share `quantile` of the domain lies, in 0 to 1: equally spaced quantiles give each value of a
    /// step or choice equally often, and values of a logarithmic domain equally often for each factor.
    pub fn quantile(&self, quantile: f64) -> f64 {
        let [low, high] = self.bounds();
        match (self.count(), self.is_log()) {
            (None, false) => (low + quantile * (high - low)).clamp(low, high),
            (None, true) => self.nearest(between_logs(low, high, quantile)),
            (Some(_), true) => self.nearest(between_logs(low - 0.5, high + 0.5, quantile)),
            (Some(count), false) => self.stepped((quantile * count as f64) as u64),
        }
    }

    /// The number of points of this domain in a grid. A range without a step, and a logarithmic one of more integers, has `most`
    /// points, or fewer where integers of them are equal.
    pub fn cells(&self, most: u64) -> u64 {
        match self.count() {
            Some(count) if !self.is_log() || count <= most => count,
            Some(_) => self.log_integers(most).len() as u64,
            None => most.max(1),
        }
    }

    /// Point `index` of [`cells`](Self::cells) in a grid, equally spaced from end to end, in the logarithm where the domain is
    /// logarithmic.
    pub(crate) fn cell(&self, index: u64, most: u64) -> f64 {
        match self.count() {
            Some(count) if !self.is_log() || count <= most => self.stepped(index),
            // A domain has a value at least.
            Some(_) => self.log_integers(most).into_iter().nth(index as usize).unwrap_or(self.bounds()[1]),
            None => self.spaced(index, most),
        }
    }

    /// The value after `index` steps, of the last one the upper end itself.
    fn stepped(&self, index: u64) -> f64 {
        let [low, high] = self.bounds();
        match self.count() {
            Some(count) if index + 1 >= count => high,
            _ => low + index as f64 * self.step().unwrap_or(0.0),
        }
    }

    /// Value `index` of `most` that are equally spaced from end to end.
    fn spaced(&self, index: u64, most: u64) -> f64 {
        let [low, high] = self.bounds();
        match most.saturating_sub(1) {
            0 => low,
            last if index >= last => high,
            last if self.is_log() => self.nearest(between_logs(low, high, index as f64 / last as f64)),
            last => low + (high - low) * (index as f64 / last as f64),
        }
    }

    fn log_integers(&self, most: u64) -> Vec<f64> {
        let mut values: Vec<_> = (0..most.max(1)).map(|index| self.spaced(index, most)).collect();
        values.dedup();
        values
    }
}

fn between_logs(low: f64, high: f64, share: f64) -> f64 {
    let [low, high] = [libm::log(low), libm::log(high)];
    libm::exp(low + share * (high - low))
}
