use std::collections::HashSet;

use oomph_core::{Generator, Key};

use super::proposals::{PROPOSALS, Sampler, bits};
use crate::{Direction, Draw, Point, Space, Trial};

/// All points of a grid, each once, in an order that the seed gives.
///
/// Steps, integers and choices are in it with all their values. A range of numbers without a step has `most` points, equally
/// spaced from end to end, in the logarithm where it is logarithmic; and so has a logarithmic range of more integers. A point
/// that any trial has is not proposed again, also where that trial failed or does not fit. When the grid is used up, there are
/// no proposals.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    most: u64,
}

impl Grid {
    /// A grid with `most` points of each range without a step, at least one.
    pub fn new(most: u64) -> Self {
        Self { most: most.max(1) }
    }
}

impl Sampler for Grid {
    fn propose(&self, space: &Space, trials: &[Trial], _: Direction, draw: Draw) -> Vec<Point> {
        // A larger grid is truncated: nobody tries 2^64 points.
        let cells = space.grid_points(self.most).unwrap_or(u64::MAX);
        let tried: HashSet<_> = trials.iter().map(|trial| bits(&trial.point)).collect();
        let order = GridOrder::new(cells, draw.seed);
        let skipped = usize::try_from(draw.round).unwrap_or(usize::MAX).saturating_mul(PROPOSALS);
        let points = (0..cells).map(|index| space.grid_point(order.at(index), self.most));
        points.filter(|point| !tried.contains(&bits(point))).skip(skipped).take(PROPOSALS).collect()
    }
}

/// A random order of 0, 1, …, `count` − 1, of which any place can be told: a Feistel network of four rounds over the next power of
/// four, walked until it leads back below `count` (Black and Rogaway 2002).
struct GridOrder {
    count: u64,
    half_bits: u32,
    keys: [Key; 4],
}

impl GridOrder {
    fn new(count: u64, seed: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let key = Key::new(seed).with_name("grid");
        Self { count, half_bits: bits.div_ceil(2).max(1), keys: [0, 1, 2, 3].map(|round| key.with(round)) }
    }

    /// What stands at `place`, which is below the count.
    fn at(&self, place: u64) -> u64 {
        let mut number = self.mixed(place);
        // The network is a permutation, so the walk from a number below the count comes to one again.
        while number >= self.count {
            number = self.mixed(number);
        }
        number
    }

    fn mixed(&self, number: u64) -> u64 {
        let mask = u64::MAX >> (u64::BITS - self.half_bits);
        let halves = [number >> self.half_bits, number & mask];
        let [left, right] = self.keys.iter().fold(halves, |[left, right], key| {
            [right, left ^ (Generator::at(key.with(right)).bits() & mask)]
        });
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Domain, Parameter};

    #[test]
    fn an_order_has_every_number_once() {
        for count in [1, 2, 3, 4, 5, 17, 64, 1000] {
            let order = GridOrder::new(count, 3);
            let mut numbers: Vec<_> = (0..count).map(|place| order.at(place)).collect();
            assert!(count < 5 || !numbers.is_sorted());
            numbers.sort_unstable();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        }
        assert!(GridOrder::new(u64::MAX, 3).at(7) < u64::MAX);
    }

    #[test]
    fn a_study_tries_every_point_once_and_then_there_are_none() {
        let integers = |high| Domain::Integer { low: 0, high, step: 1, log: false };
        let space =
            Space::new(vec![Parameter::new("a", integers(6)), Parameter::new("b", integers(7))]).unwrap();
        let mut trials: Vec<Trial> = Vec::new();
        let propose = |trials: &[Trial], round| {
            let draw = Draw { seed: 5, number: trials.len(), round };
            Grid::new(1).propose(&space, trials, Direction::Minimize, draw)
        };
        while let Some(point) = propose(&trials, 0).into_iter().next() {
            assert!(trials.iter().all(|trial| trial.point != point));
            trials.push(Trial::new(trials.len(), point));
        }
        assert_eq!(trials.len(), 56);
        trials.truncate(20);
        let [first, second] = [propose(&trials, 0), propose(&trials, 1)];
        assert_eq!([first.len(), second.len(), propose(&trials, 2).len()], [24, 12, 0]);
        assert!(second.iter().all(|point| !first.contains(point)));
    }
}
