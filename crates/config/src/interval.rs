//! Intervals of things that repeat.

use std::{fmt, str::FromStr};

use crate::{
    error::ConfigError,
    section::{Refused, Section},
    value::Value,
};

/// The interval of something that repeats: `1 epoch`, `200 steps`, `10 minutes`, `never`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Interval {
    /// A number of epochs, at least 1.
    Epochs(usize),
    /// A number of optimizer steps, at least 1.
    Steps(usize),
    /// Minutes of wall-clock time, greater than 0.
    Minutes(f64),
    /// It never happens.
    Never,
}

/// A year; a longer interval is a typing error.
const MAX_MINUTES: f64 = 525_600.0;

/// The units that a key takes. All keys take epochs, steps and `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntervalUnits {
    Progress,
    ProgressOrTime,
}

/// The error of [`Interval::from_str`]: the text is not an interval.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an interval; expected one such as `1 epoch`, `200 steps`, `10 minutes` or `never`")]
pub struct ParseIntervalError {
    text: String,
}

impl FromStr for Interval {
    type Err = ParseIntervalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text.trim()).ok_or_else(|| ParseIntervalError { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Interval> {
    if text == "never" {
        return Some(Interval::Never);
    }
    let (count, unit) = text.split_once(char::is_whitespace)?;
    let whole = || count.parse().ok().filter(|count| *count >= 1);
    match unit.trim_start() {
        "epoch" | "epochs" => whole().map(Interval::Epochs),
        "step" | "steps" => whole().map(Interval::Steps),
        "minute" | "minutes" => {
            let minutes = count.parse().ok()?;
            (minutes > 0.0 && minutes <= MAX_MINUTES).then_some(Interval::Minutes(minutes))
        }
        _ => None,
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Epochs(1) => f.pad("1 epoch"),
            Self::Epochs(count) => write!(f, "{count} epochs"),
            Self::Steps(1) => f.pad("1 step"),
            Self::Steps(count) => write!(f, "{count} steps"),
            Self::Minutes(1.0) => f.pad("1 minute"),
            Self::Minutes(count) => write!(f, "{count} minutes"),
            Self::Never => f.pad("never"),
        }
    }
}

impl From<Interval> for Value {
    fn from(interval: Interval) -> Self {
        Self::String(interval.to_string())
    }
}

impl Interval {
    /// Reads a key whose default is this interval, in the units that make sense for it.
    pub(crate) fn read(
        self,
        section: &Section,
        key: &str,
        units: IntervalUnits,
    ) -> Result<Self, ConfigError> {
        let expected = match units {
            IntervalUnits::Progress => "an interval such as `1 epoch`, `200 steps` or `never`",
            IntervalUnits::ProgressOrTime => {
                "an interval such as `1 epoch`, `500 steps`, `10 minutes` or `never`"
            }
        };
        section.or(key, self, expected, |value| match value {
            Value::String(text) => match (text.parse(), units) {
                (Err(_), _) | (Ok(Self::Minutes(_)), IntervalUnits::Progress) => Err(Refused::Value),
                (Ok(interval), _) => Ok(interval),
            },
            _ => Err(Refused::Kind),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_and_written() {
        for (text, interval) in [
            ("1 epoch", Interval::Epochs(1)),
            ("2 epochs", Interval::Epochs(2)),
            ("1 step", Interval::Steps(1)),
            ("200 steps", Interval::Steps(200)),
            ("1 minute", Interval::Minutes(1.0)),
            ("0.5 minutes", Interval::Minutes(0.5)),
            ("never", Interval::Never),
        ] {
            assert_eq!(text.parse(), Ok(interval));
            assert_eq!(interval.to_string(), text);
        }
    }

    #[test]
    fn what_is_not_an_interval_is_refused() {
        for text in [
            "",
            "epoch",
            "0 steps",
            "-1 steps",
            "1.5 epochs",
            "5",
            "5 hours",
            "nan minutes",
            "inf minutes",
            "0 minutes",
        ] {
            assert!(text.parse::<Interval>().is_err(), "{text}");
        }
    }
}
