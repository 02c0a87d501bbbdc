use std::time::{Duration, Instant};

/// How long the rest takes if it goes on as since the start: evaluations and saves included, earlier processes not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eta {
    start: Instant,
    first: usize,
}

impl Eta {
    /// Starts when `first` of all steps are done already.
    pub(super) fn start(first: usize) -> Self {
        Self { start: Instant::now(), first }
    }

    /// The time from `step` to `end`, once there is something to estimate it from.
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
    fn the_rest_takes_as_long_as_what_was_done() {
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
