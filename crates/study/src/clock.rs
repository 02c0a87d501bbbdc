use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// The two times that a study needs. Tests give their own.
#[derive(Clone)]
pub struct Clock {
    elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
    date: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl Clock {
    /// The clocks of the system.
    pub fn system() -> Self {
        let start = Instant::now();
        Self::new(move || start.elapsed(), SystemTime::now)
    }

    /// `elapsed` never runs backwards and decides when a lease is over; `date` is written into records, and decides nothing.
    pub fn new(
        elapsed: impl Fn() -> Duration + Send + Sync + 'static,
        date: impl Fn() -> SystemTime + Send + Sync + 'static,
    ) -> Self {
        Self { elapsed: Arc::new(elapsed), date: Arc::new(date) }
    }

    /// The time since some moment.
    pub(crate) fn elapsed(&self) -> Duration {
        (self.elapsed)()
    }

    /// The date as Optuna writes it: UTC, with microseconds, such as `2026-11-22T10:00:00.000000+00:00`.
    pub(crate) fn date(&self) -> String {
        iso_date((self.date)())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

fn iso_date(date: SystemTime) -> String {
    // A clock before 1970 is a clock that nobody set.
    let since = date.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    let [year, month, day] = civil(seconds / 86_400);
    let [hour, minute, second] = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
    let micros = since.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+00:00")
}

/// Year, month and day of a day after 1970-01-01, in the Gregorian calendar
/// (<https://howardhinnant.github.io/date_algorithms.html>, `civil_from_days`).
fn civil(days: u64) -> [u64; 3] {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    [year_of_era + era * 400 + u64::from(month <= 2), month, day]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_python_writes_them() {
        let date = |micros| iso_date(SystemTime::UNIX_EPOCH + Duration::from_micros(micros));
        assert_eq!(date(0), "1970-01-01T00:00:00.000000+00:00");
        assert_eq!(date(951_782_399_000_001), "2000-02-28T23:59:59.000001+00:00");
        assert_eq!(date(951_782_400_000_000), "2000-02-29T00:00:00.000000+00:00");
        assert_eq!(date(1_795_514_399_999_999), "2026-11-24T09:59:59.999999+00:00");
    }
}
