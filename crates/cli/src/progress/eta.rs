use std::time::{Duration, Instant};

/// Estimates the remaining time from the steps since the start. Evaluations and saves count, earlier processes do not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eta {
    start: Instant,
    first: usize,
}

impl Eta {
    /// Starts after the first `first` steps.
    pub(super) fn start(first: usize) -> Self {
        Self { start: Instant::now(), first }
    }

    /// The estimated time from `step` to `end`; `None` before the first step.
    pub(super) fn left(&self, step: usize, end: usize) -> Option<Duration> {
        estimate(self.start.elapsed(), step.saturating_sub(self.first), end.saturating_sub(step))
    }
}

fn estimate(elapsed: Duration, done: usize, left: usize) -> Option<Duration> {
    (done > 0).then(|| elapsed.div_f64(done as f64).mul_f64(left as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_steps_take_as_long_as_finished_ones() {
        let seconds = Duration::from_secs;
        assert_eq!(estimate(seconds(10), 0, 100), None);
        assert_eq!(estimate(seconds(10), 5, 100), Some(seconds(200)));
        assert_eq!(estimate(seconds(10), 5, 0), Some(seconds(0)));
    }

    #[test]
    fn steps_of_an_earlier_process_do_not_count() {
        assert_eq!(Eta::start(50).left(50, 100), None);
        assert!(Eta::start(50).left(51, 100).is_some());
    }
}
