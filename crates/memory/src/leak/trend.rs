use std::collections::VecDeque;

/// Growth below this per step is no leak: unread losses and counts add a few numbers per step.
pub(super) const FLOOR_BYTES_PER_STEP: u64 = 128;

/// The first observations of a point, which allocate optimizer state and lasting buffers.
const WARM_UP: usize = 3;
/// Growing observations before growth is suspected, and before it is certain.
const SUSPECT: usize = 10;
const CERTAIN: usize = 14;
/// The minimum of this number of observations is one observation of the next coarser level.
const BLOCK: usize = 16;
/// The levels: every observation, the minimum of 16, the minimum of 256.
const LEVELS: usize = 3;

/// Bytes in use at a point over time.
///
/// Growth is sought at three levels: between observations, between minima of 16, and between minima of 256. Memory that is
/// freed from time to time, but never completely, shows at the coarser levels.
#[derive(Clone, Debug, Default)]
pub(super) struct Trend {
    skipped: usize,
    levels: [Level; LEVELS],
}

/// The newest observations of one level, and the incomplete group of the next.
#[derive(Clone, Debug, Default)]
struct Level {
    seen: VecDeque<Observation>,
    block: Option<Observation>,
    in_block: usize,
}

/// Bytes in use after a number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) step: u64,
    pub(super) bytes: u64,
}

/// The shape of a trend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Steady,
    Suspected,
    Grows(Slope),
}

/// A growth: from one observation to the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slope {
    pub(super) bytes_per_step: u64,
    pub(super) since: Observation,
    pub(super) until: Observation,
}

impl Trend {
    /// Adds an observation of a later step.
    pub(super) fn observe(&mut self, observation: Observation) -> Shape {
        if self.skipped < WARM_UP {
            self.skipped += 1;
            return Shape::Steady;
        }
        let mut next = Some(observation);
        for level in &mut self.levels {
            let Some(observation) = next else { break };
            next = level.observe(observation);
        }
        if let Some(slope) = self.levels.iter().find_map(|level| level.slope(CERTAIN, 2)) {
            return Shape::Grows(slope);
        }
        let is_suspected = self.levels.iter().any(|level| level.slope(SUSPECT, 1).is_some());
        if is_suspected { Shape::Suspected } else { Shape::Steady }
    }
}

impl Level {
    /// The group that this observation completes.
    fn observe(&mut self, observation: Observation) -> Option<Observation> {
        if self.seen.len() == CERTAIN {
            self.seen.pop_front();
        }
        self.seen.push_back(observation);
        // A group has the step of its last observation, so groups stay in order.
        let least = self.block.map_or(observation.bytes, |block| block.bytes.min(observation.bytes));
        self.block = Some(Observation { bytes: least, ..observation });
        self.in_block += 1;
        if self.in_block < BLOCK {
            return None;
        }
        self.in_block = 0;
        self.block.take()
    }

    /// The growth over the newest `count` observations, if three quarters of them grew by more than the floor and at most
    /// `exceptions` pairs are out of order.
    ///
    /// The first rule excludes a single jump, the second excludes fluctuation. Ten random values have at most one pair out
    /// of order in 1 of 360,000 cases; 14 have at most two in 1 of 840,000,000.
    fn slope(&self, count: usize, exceptions: usize) -> Option<Slope> {
        let skipped = self.seen.len().checked_sub(count)?;
        let newest: Vec<Observation> = self.seen.iter().skip(skipped).copied().collect();
        let mut rates: Vec<i128> = newest.windows(2).map(|pair| rate(pair[0], pair[1])).collect();
        let grown = rates.iter().filter(|rate| **rate >= i128::from(FLOOR_BYTES_PER_STEP)).count();
        if grown * 4 < rates.len() * 3 || inversions(&newest) > exceptions {
            return None;
        }
        rates.sort_unstable();
        let (since, until) = (*newest.first()?, *newest.last()?);
        let bytes_per_step = u64::try_from(rates[rates.len() / 2]).ok()?;
        Some(Slope { bytes_per_step, since, until })
    }
}

/// Bytes per step between two observations.
fn rate(before: Observation, after: Observation) -> i128 {
    let steps = after.step.saturating_sub(before.step).max(1);
    (i128::from(after.bytes) - i128::from(before.bytes)) / i128::from(steps)
}

/// Pairs whose later value is the smaller.
fn inversions(observations: &[Observation]) -> usize {
    let smaller_after = |index: usize, bytes: u64| {
        observations[index + 1..].iter().filter(|later| later.bytes < bytes).count()
    };
    observations.iter().enumerate().map(|(index, observation)| smaller_after(index, observation.bytes)).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The first observation, counted from 1, with certain growth, and its bytes per step.
    fn found(series: impl IntoIterator<Item = u64>) -> Option<(usize, u64)> {
        let mut trend = Trend::default();
        series.into_iter().enumerate().find_map(|(index, bytes)| {
            match trend.observe(Observation { step: index as u64, bytes }) {
                Shape::Grows(slope) => Some((index + 1, slope.bytes_per_step)),
                Shape::Steady | Shape::Suspected => None,
            }
        })
    }

    const BASE: u64 = 50 << 20;

    #[test]
    fn leaks_of_every_size_are_found_within_20_observations() {
        for leaked in [128, 640, 4096, 437_632, 1 << 30] {
            assert_eq!(found((0..40).map(|step| BASE + step * leaked)), Some((17, leaked)), "{leaked}");
        }
    }

    #[test]
    fn growth_is_suspected_before_it_is_certain() {
        let mut trend = Trend::default();
        let shapes: Vec<Shape> =
            (0..17).map(|step| trend.observe(Observation { step, bytes: BASE + step * 640 })).collect();
        assert_eq!(shapes.iter().position(|shape| *shape != Shape::Steady), Some(12));
        assert!(shapes[12..16].iter().all(|shape| *shape == Shape::Suspected));
        assert!(matches!(shapes[16], Shape::Grows(_)));
    }

    #[test]
    fn a_leak_among_noise_that_is_smaller_is_found() {
        assert_eq!(
            found((0..40).map(|step| BASE + step * 4096 + step * 7919 % 1500)).map(|it| it.0),
            Some(17)
        );
    }

    #[test]
    fn a_leak_that_is_partly_given_back_is_found() {
        // 10 KiB per step; every 10 steps nine tenths are freed.
        let series = (0..1000).map(|step| BASE + (step % 10) * 10_240 + step / 10 * 10_240);
        let (at, bytes) = found(series).expect("it grows");
        assert!(at < 300 && bytes.abs_diff(1024) < 300, "{at}: {bytes}");
    }

    #[test]
    fn a_leak_of_every_fiftieth_step_is_found() {
        let series = (0..5000).map(|step| BASE + step / 50 * 1_000_000);
        let (at, bytes) = found(series).expect("it grows");
        assert!(at < 4000 && bytes.abs_diff(20_000) < 4000, "{at}: {bytes}");
    }

    #[test]
    fn nothing_healthy_is_a_leak() {
        type Series = fn(u64) -> u64;
        let healthy: [(&str, Series); 8] = [
            ("constant", |_| 0),
            ("losses kept until they are read", |step| step % 1000 * 8),
            ("losses of 16 tasks kept until they are read", |step| step % 1000 * 64),
            ("a few outputs kept and released", |step| step % 12 * 640),
            ("state made by the first steps", |step| step.min(3) * 1_000_000),
            ("a buffer that grows once in a while", |step| u64::from((step + 1).ilog2()) << 20),
            ("a list that doubles", |step| (step + 1).next_power_of_two() * 128),
            ("an evaluation every 45 steps", |step| if step % 45 == 44 { 3_000_000 } else { 0 }),
        ];
        for (name, series) in healthy {
            assert_eq!(found((0..5000).map(|step| BASE + series(step))), None, "{name}");
        }
    }

    #[test]
    fn a_plateau_after_slow_growth_is_no_leak() {
        let series = |step: u64| BASE + step.min(100) / 5 * 40_000;
        assert_eq!(found((0..5000).map(series)), None);
    }

    proptest! {
        /// Random levels within bounds.
        #[test]
        fn what_is_bounded_and_random_is_no_leak(
            series in prop::collection::vec(0u64..1 << 32, 0..1500),
        ) {
            prop_assert_eq!(found(series), None);
        }

        /// Sawtooth levels of any height, with a period shorter than the compared window.
        #[test]
        fn what_is_released_every_few_steps_is_no_leak(
            period in 1u64..11, leaked in 0u64..1 << 20, noise in 1u64..64,
        ) {
            let series = |step: u64| BASE + step % period * leaked + step * 7919 % noise;
            prop_assert_eq!(found((0..1500).map(series)), None);
        }

        #[test]
        fn what_grows_by_more_than_its_noise_is_found(
            leaked in FLOOR_BYTES_PER_STEP * 4..1 << 24, seed in any::<u64>(),
        ) {
            let noise = |step: u64| (seed ^ step).wrapping_mul(0x9E37_79B9_7F4A_7C15) % (leaked / 2);
            let series = (0..40).map(|step| BASE + step * leaked + noise(step));
            prop_assert!(found(series).is_some_and(|(at, _)| at <= 20));
        }
    }
}
