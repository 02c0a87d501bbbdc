use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);

/// Suffixes with their seconds. `ms` comes before `s`, which is its end. A bare number is seconds.
const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Why a text is not an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum IntervalError {
    #[error("expected a number and a unit, such as `2s`, `500ms` or `1m`")]
    NotATime,
    #[error("expected a time from `100ms` to `1h`")]
    OutOfRange,
}

/// Reads `2s`, `500ms`, `1.5m`.
pub(super) fn interval(text: &str) -> Result<Duration, IntervalError> {
    let text = text.trim();
    let (number, seconds) = UNITS
        .iter()
        .find_map(|(suffix, seconds)| Some((text.strip_suffix(suffix)?.trim_end(), *seconds)))
        .unwrap_or((text, 1.0));
    // `parse` would accept words such as `inf`.
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(IntervalError::NotATime);
    }
    let number: f64 = number.parse().map_err(|_| IntervalError::NotATime)?;
    let time = Duration::try_from_secs_f64(number * seconds).map_err(|_| IntervalError::OutOfRange)?;
    if (SHORTEST..=LONGEST).contains(&time) { Ok(time) } else { Err(IntervalError::OutOfRange) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        for (text, millis) in
            [("2s", 2000), ("2", 2000), ("500ms", 500), ("0.5 s", 500), ("1m", 60_000), ("1h", 3_600_000)]
        {
            assert_eq!(interval(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn malformed_intervals_are_refused() {
        for text in ["", "s", "fast", "2 weeks", "-1s", "1..5s", "inf", "1e3"] {
            assert_eq!(interval(text), Err(IntervalError::NotATime), "{text}");
        }
        for text in ["0", "0s", "99ms", "61m", "2h", "99999999999999999999999h"] {
            assert_eq!(interval(text), Err(IntervalError::OutOfRange), "{text}");
        }
    }
}
