//! Samplers: the points of the next trial.

mod grid;
mod random;
mod sobol;
mod tpe;

pub use grid::Grid;
pub use random::Random;
pub use sobol::Sobol;
pub use tpe::Tpe;

use crate::{Direction, Draw, Point, Space, Trial, draw::uniform};
use oomph_core::Generator;

/// The most points of one proposal.
const PROPOSALS: usize = 24;

/// Proposes points for trials.
pub trait Sampler {
    /// Points for the trial of `draw`, the best first and each once, so that a caller may plan the memory of each and take the
    /// first that fits. With another [`Draw::round`] there are further ones.
    ///
    /// There are none where all of the space was tried; only [`Grid`] knows that.
    ///
    /// A function of its arguments alone. The order of `trials` does not matter, and neither does the machine: what is computed
    /// with more than additions, products and roots is computed by `libm`.
    fn propose(&self, space: &Space, trials: &[Trial], direction: Direction, draw: Draw) -> Vec<Point>;
}

/// `proposal` with the values of `fixed`, such as those of a trial that a user enqueued.
///
/// Parameters that take no part any more are left out. Those that take part now and have no value are drawn from their whole
/// domain.
pub fn with_fixed(space: &Space, proposal: &Point, fixed: &Point, draw: Draw) -> Point {
    space.fill(|parameter| {
        let known = fixed.get(&parameter.name).or_else(|| proposal.get(&parameter.name));
        known.copied().unwrap_or_else(|| {
            let mut generator = Generator::at(draw.key("fixed").with_name(&parameter.name));
            parameter.domain.quantile(uniform(&mut generator))
        })
    })
}

/// Trials in the order of their numbers.
fn by_number(trials: &[Trial]) -> Vec<&Trial> {
    let mut sorted: Vec<_> = trials.iter().collect();
    sorted.sort_by_key(|trial| trial.number);
    sorted
}

/// A point that can be looked up.
fn bits(point: &Point) -> Vec<(&str, u64)> {
    point.iter().map(|(name, value)| (&**name, value.to_bits())).collect()
}

/// Points without those that were there before.
fn distinct(points: impl Iterator<Item = Point>) -> Vec<Point> {
    points.fold(Vec::new(), |mut known, point| {
        if !known.contains(&point) {
            known.push(point);
        }
        known
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Choice, Domain, Parameter, TrialState, When};

    fn space() -> Space {
        let depends = Some(When { parameter: "kind".to_owned(), choices: vec![1] });
        Space::new(vec![
            Parameter::new("kind", Domain::Choice(vec![Choice::Boolean(false), Choice::Boolean(true)])),
            Parameter::new("lr", Domain::Float { low: 1e-4, high: 0.1, step: None, log: true }),
            Parameter::new("width", Domain::Integer { low: 8, high: 64, step: 8, log: false }),
            Parameter {
                when: depends,
                ..Parameter::new(
                    "momentum",
                    Domain::Float { low: 0.0, high: 0.9, step: Some(0.1), log: false },
                )
            },
        ])
        .unwrap()
    }

    fn samplers() -> Vec<Box<dyn Sampler>> {
        vec![Box::new(Random), Box::new(Grid::new(3)), Box::new(Sobol), Box::new(Tpe::default())]
    }

    /// Trials in all states, whose points are random.
    fn trials(count: usize, seed: u64) -> Vec<Trial> {
        let states = [
            TrialState::Complete,
            TrialState::Paused,
            TrialState::Running,
            TrialState::Infeasible,
            TrialState::Failed,
            TrialState::Waiting,
            TrialState::Pruned,
        ];
        let trial = |number: usize| {
            let draw = Draw { seed, number, round: 9 };
            let point = Random.propose(&space(), &[], Direction::Minimize, draw).swap_remove(0);
            let value = point.values().sum::<f64>();
            let state = states[number % states.len()];
            let steps = [(1 + number as u64 % 3, value)].into();
            let violation = if state == TrialState::Infeasible { value } else { 0.0 };
            let value = (state == TrialState::Complete).then_some(value);
            Trial { state, value, steps, violation, ..Trial::new(number, point) }
        };
        (0..count).map(trial).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn proposals_are_points_of_the_space_and_each_is_there_once(seed: u64, count in 0_usize..80, round in 0_u64..3) {
            let trials = trials(count, seed);
            for sampler in samplers() {
                let draw = Draw { seed, number: count, round };
                let points = sampler.propose(&space(), &trials, Direction::Minimize, draw);
                prop_assert!(points.len() <= PROPOSALS);
                for (index, point) in points.iter().enumerate() {
                    prop_assert_eq!(space().check(point), Ok(()));
                    prop_assert!(!points[..index].contains(point));
                }
            }
        }

        #[test]
        fn proposals_do_not_depend_on_the_order_of_the_trials(seed: u64, count in 0_usize..80) {
            let mut trials = trials(count, seed);
            for sampler in samplers() {
                let draw = Draw { seed, number: count, round: 0 };
                let before = sampler.propose(&space(), &trials, Direction::Maximize, draw);
                Generator::at(draw.key("shuffle")).shuffle(&mut trials);
                prop_assert_eq!(before, sampler.propose(&space(), &trials, Direction::Maximize, draw));
            }
        }

        #[test]
        fn fixed_values_are_kept_and_the_point_stays_whole(seed: u64, kind in 0_usize..2, number in 0_usize..9) {
            let draw = Draw { seed, number, round: 0 };
            for proposal in Random.propose(&space(), &[], Direction::Minimize, draw) {
                let fixed: Point = [("kind".to_owned(), kind as f64)].into();
                let point = with_fixed(&space(), &proposal, &fixed, draw);
                prop_assert_eq!(space().check(&point), Ok(()));
                prop_assert_eq!((point["kind"], point["lr"]), (kind as f64, proposal["lr"]));
            }
        }
    }

    #[test]
    fn seeds_trials_and_rounds_have_other_proposals() {
        let trials = trials(40, 1);
        for sampler in samplers() {
            let propose = |seed, number, round| {
                let draw = Draw { seed, number, round };
                sampler.propose(&space(), &trials, Direction::Minimize, draw)
            };
            let first = propose(1, 40, 0);
            assert_ne!(first, propose(2, 40, 0));
            assert_ne!(first, propose(1, 40, 1));
        }
    }
}
