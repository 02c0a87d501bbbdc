use std::fmt;

use oomph_core::Bytes;

use super::trend::{Observation, Shape, Slope, Trend};
use crate::record::StepKind;

/// A point of a loop at which memory is read, and compared with earlier readings at the same point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// After an optimizer step, or after an evaluation batch.
    pub kind: StepKind,
    /// Samples in the batch: the smaller last batch of an epoch is compared with others of its size. If every batch has a
    /// different size, give the same number for all.
    pub samples: usize,
}

impl Point {
    /// After an optimizer step.
    pub const fn step(samples: usize) -> Self {
        Self { kind: StepKind::Train, samples }
    }

    /// After an evaluation batch.
    pub const fn eval_batch(samples: usize) -> Self {
        Self { kind: StepKind::Eval, samples }
    }
}

/// The result of one observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// No growth, or none beyond that already reported.
    Steady,
    /// Growth, but not yet for long enough: record what the next steps keep.
    Suspected,
    /// It grows.
    Growth(Growth),
}

/// Memory that grows from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The point.
    pub point: Point,
    /// Growth per step or evaluation batch.
    pub bytes_per_step: Bytes,
    /// Growth since it was first seen.
    pub grown_bytes: Bytes,
    /// Steps or evaluation batches since then.
    pub steps: u64,
    /// Bytes in use now.
    pub in_use_bytes: Bytes,
}

impl Growth {
    /// Steps or evaluation batches until a limit is reached.
    pub fn steps_left(&self, limit_bytes: Bytes) -> u64 {
        limit_bytes.get().saturating_sub(self.in_use_bytes.get()) / self.bytes_per_step.get().max(1)
    }
}

/// Compares the bytes in use at the same points of successive steps. It reads no meter: callers pass the figures.
///
/// Growth is reported once per kind of point, then again if its rate doubles or the total grows tenfold. It must last for
/// 14 observations after the first 3 of a point, most of which add at least 128 bytes.
///
/// ```
/// use oomph_memory::leak::{Finding, LeakDetector, Point};
/// # use oomph_core::Bytes;
/// let mut detector = LeakDetector::new();
/// let found = (0..).find(|step| {
///     let in_use_bytes = Bytes::new(1_000_000 + step * 4_096);
///     matches!(detector.observe(Point::step(32), in_use_bytes), Finding::Growth(_))
/// });
/// assert_eq!(found, Some(16));
/// ```
#[derive(Clone, Debug, Default)]
pub struct LeakDetector {
    /// The points seen, the latest last.
    trends: Vec<(Point, Trend)>,
    /// By [`StepKind`].
    of_kinds: [OfKind; 2],
}

/// The state shared by all points of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct OfKind {
    /// Observations so far.
    steps: u64,
    /// Bytes in use at the last one.
    in_use: u64,
    told: Option<Told>,
}

/// The last report.
#[derive(Clone, Copy, Debug)]
struct Told {
    slope: Slope,
    grown: u64,
}

/// The most batch sizes remembered; the oldest are forgotten.
const MOST_POINTS: usize = 16;

impl LeakDetector {
    /// A detector without observations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Observes the bytes in use at a point of a finished step.
    pub fn observe(&mut self, point: Point, in_use_bytes: Bytes) -> Finding {
        let in_use = in_use_bytes.get();
        let of_kind = &mut self.of_kinds[point.kind as usize];
        of_kind.steps += 1;
        of_kind.in_use = in_use;
        let step = of_kind.steps;
        // A leak of training between two evaluations is not counted for the evaluation.
        let of_train = self.of_kinds[StepKind::Train as usize];
        let base = if point.kind == StepKind::Eval { of_train.in_use } else { 0 };
        // A level may fall below its base. The middle of the range keeps the number unsigned.
        let bytes = (1 << 62) + in_use - base.min(1 << 62);
        match self.trend(point).observe(Observation { step, bytes }) {
            Shape::Steady => Finding::Steady,
            Shape::Suspected if self.of_kinds[point.kind as usize].told.is_some() => Finding::Steady,
            Shape::Suspected => Finding::Suspected,
            Shape::Grows(slope) => self.tell(point, slope, in_use_bytes),
        }
    }

    fn trend(&mut self, point: Point) -> &mut Trend {
        let known = self.trends.iter().position(|(known, _)| *known == point);
        let trend = known.map(|index| self.trends.remove(index)).unwrap_or((point, Trend::default()));
        if self.trends.len() == MOST_POINTS {
            self.trends.remove(0);
        }
        let last = self.trends.len();
        self.trends.push(trend);
        &mut self.trends[last].1
    }

    fn tell(&mut self, point: Point, slope: Slope, in_use_bytes: Bytes) -> Finding {
        let told = &mut self.of_kinds[point.kind as usize].told;
        let since = told.map_or(slope.since, |told| told.slope.since);
        let grown = slope.until.bytes.saturating_sub(since.bytes);
        let is_news = told.is_none_or(|told| {
            slope.bytes_per_step >= 2 * told.slope.bytes_per_step || grown >= 10 * told.grown
        });
        if !is_news {
            return Finding::Steady;
        }
        *told = Some(Told { slope: Slope { since, ..slope }, grown });
        Finding::Growth(Growth {
            point,
            bytes_per_step: Bytes::new(slope.bytes_per_step),
            grown_bytes: Bytes::new(grown),
            steps: slope.until.step - since.step,
            in_use_bytes,
        })
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self.kind {
            StepKind::Train => "training step",
            StepKind::Eval => "evaluation batch",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observes epochs with evaluations. The arguments are the bytes left by each training step and evaluation batch, and
    /// whether evaluation frees its bytes at its end. Returns the kinds of reported growth, in order.
    fn run(epochs: u64, train_leaks: u64, eval_leaks: u64, gives_back: bool) -> Vec<Growth> {
        let mut detector = LeakDetector::new();
        let mut in_use = 10_000_000;
        let mut told = Vec::new();
        let mut see = |point, in_use| match detector.observe(point, Bytes::new(in_use)) {
            Finding::Growth(growth) => told.push(growth),
            Finding::Steady | Finding::Suspected => {}
        };
        for _ in 0..epochs {
            for batch in 0..45 {
                in_use += train_leaks;
                // The last batch of an epoch is smaller and leaves fewer bytes.
                let (samples, left) = if batch == 44 { (13, 1300) } else { (32, 3200) };
                see(Point::step(samples), in_use + left + batch % 10 * 8);
            }
            let before = in_use;
            for batch in 0..12 {
                in_use += eval_leaks;
                see(Point::eval_batch(if batch == 11 { 8 } else { 32 }), in_use + batch * 8);
            }
            in_use = if gives_back { before } else { in_use };
        }
        told
    }

    #[test]
    fn a_healthy_run_is_silent() {
        assert_eq!(run(100, 0, 0, true), []);
    }

    #[test]
    fn what_a_few_evaluation_batches_keep_until_the_end_is_no_leak() {
        assert_eq!(run(100, 0, 5_000, true), []);
    }

    #[test]
    fn a_leak_of_training_is_not_blamed_on_evaluation() {
        let told = run(3, 4096, 0, true);
        assert!(told.iter().all(|growth| growth.point == Point::step(32)), "{told:?}");
        assert_eq!(told[0].bytes_per_step, Bytes::new(4096 + 8));
        // Step 17, then at ten times the growth.
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(run(10, 4096, 0, true).len(), 2);
    }

    #[test]
    fn a_leak_of_evaluation_shows_at_the_steps_between_sooner_or_later() {
        let told = run(200, 0, 5_000, false);
        assert!(!told.is_empty());
        assert!(told.iter().all(|growth| growth.point.kind == StepKind::Train));
    }

    #[test]
    fn a_long_evaluation_is_compared_with_itself() {
        let mut detector = LeakDetector::new();
        detector.observe(Point::step(32), Bytes::new(1 << 30));
        let found = (0..20).find_map(|batch| {
            let in_use = Bytes::new((1 << 29) + batch * 640);
            match detector.observe(Point::eval_batch(32), in_use) {
                Finding::Growth(growth) => Some((batch, growth)),
                Finding::Steady | Finding::Suspected => None,
            }
        });
        let (batch, growth) = found.expect("it grows");
        assert_eq!((batch, growth.steps, growth.bytes_per_step), (16, 13, Bytes::new(640)));
        assert_eq!(growth.grown_bytes, Bytes::new(13 * 640));
    }

    #[test]
    fn the_steps_left_are_those_until_the_limit() {
        let growth = Growth {
            point: Point::step(32),
            bytes_per_step: Bytes::new(1000),
            grown_bytes: Bytes::new(14_000),
            steps: 14,
            in_use_bytes: Bytes::new(500_000),
        };
        assert_eq!(growth.steps_left(Bytes::new(1_000_000)), 500);
        assert_eq!(growth.steps_left(Bytes::new(1000)), 0);
    }
}
