//! Samplers: the points of the next trial.

mod grid;
mod proposals;
mod random;
mod sobol;
mod tpe;

pub use grid::Grid;
pub use proposals::{Sampler, with_fixed};
pub use random::Random;
pub use sobol::Sobol;
pub use tpe::Tpe;

#[cfg(test)]
mod tests {
    use oomph_core::Generator;
    use proptest::prelude::*;

    use super::{proposals::PROPOSALS, *};
    use crate::{Choice, Direction, Domain, Draw, Parameter, Point, Space, Trial, TrialState, When};

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
