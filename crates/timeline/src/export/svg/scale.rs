use oomph_core::grouped;

use crate::timeline::Clock;

/// An axis from 0 to `end`, with labelled ticks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) end: f64,
    pub(super) ticks: Vec<(f64, String)>,
}

const BYTE_UNITS: [(f64, &str); 5] = [
    (1.0, "B"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
    (1_099_511_627_776.0, "TiB"),
];

const TIME_UNITS: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];

impl Scale {
    /// An axis of bytes that is a little longer than `most`.
    pub(super) fn of_bytes(most: u64) -> Self {
        Self::new(most.max(1) as f64 * 1.08, 5.0, &BYTE_UNITS)
    }

    /// An axis of time or of operations.
    pub(super) fn of_times(end: u64, clock: Clock) -> Self {
        let units: &[_] = match clock {
            Clock::Operations => &[(1.0, "")],
            Clock::Nanoseconds => &TIME_UNITS,
        };
        Self::new(end.max(1) as f64, 8.0, units)
    }

    /// An axis with about `count` ticks in the largest unit that is no larger than its end.
    fn new(end: f64, count: f64, units: &[(f64, &str)]) -> Self {
        let (factor, unit) = units.iter().rev().find(|(factor, _)| *factor <= end).unwrap_or(&units[0]);
        let step = round_step(end / factor / count);
        let decimals = if step < 1.0 { (-step.log10()).ceil() as usize } else { 0 };
        let label = |value: f64| match (value, *unit) {
            (0.0, _) => "0".to_owned(),
            (_, "") => grouped(value as u64),
            _ => format!("{value:.decimals$} {unit}"),
        };
        let number = (end / factor / step + 1e-9).floor() as usize;
        let values = (0..=number).map(|tick| tick as f64 * step);
        Self { end, ticks: values.map(|value| (value * factor, label(value))).collect() }
    }
}

/// The smallest of 1, 2, 5, 10, 20 … times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * 0.999).unwrap_or(10.0);
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_in_one_unit() {
        let scale = Scale::of_bytes(450 << 20);
        assert_eq!(labels(&scale), ["0", "100 MiB", "200 MiB", "300 MiB", "400 MiB"]);
        assert_eq!(scale.ticks[4].0, (400u64 << 20) as f64);
        assert_eq!(labels(&Scale::of_bytes(2 << 30)), ["0", "0.5 GiB", "1.0 GiB", "1.5 GiB", "2.0 GiB"]);
        let times = Scale::of_times(410_000_000, Clock::Nanoseconds);
        assert_eq!((labels(&times)[1], times.ticks.len()), ("100 ms", 5));
        assert_eq!(labels(&Scale::of_times(12_345, Clock::Operations))[1], "2,000");
    }

    #[test]
    fn an_empty_axis_has_ticks_too() {
        assert_eq!(labels(&Scale::of_bytes(0))[0], "0");
        assert!(Scale::of_times(0, Clock::Operations).ticks.len() > 1);
    }
}
