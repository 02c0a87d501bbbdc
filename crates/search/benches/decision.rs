//! Time of a decision at 1,000 trials: at most 10 ms for TPE with 10 parameters. `cargo bench -p oomph-search`.

use std::hint::black_box;

use criterion::Criterion;
use oomph_search::{
    Asha, Choice, Direction, Domain, Draw, Parameter, Random, Rungs, Sampler, Scheduler, Space, Tpe, Trial,
    TrialState,
};

const TRIALS: usize = 1_000;

fn float(log: bool) -> Domain {
    Domain::Float { low: 1e-4, high: 1.0, step: None, log }
}

fn integer(low: i64, high: i64, step: i64, log: bool) -> Domain {
    Domain::Integer { low, high, step, log }
}

fn space(domains: Vec<Domain>) -> Space {
    let parameters =
        domains.into_iter().enumerate().map(|(index, it)| Parameter::new(format!("p{index}"), it));
    Space::new(parameters.collect()).expect("a space")
}

/// What a study searches: rates, shares, widths, choices.
fn usual() -> Space {
    let words = || Domain::Choice((0..4).map(Choice::Integer).collect());
    let wide = integer(1, 1024, 1, true);
    space(vec![
        float(true),
        float(true),
        float(true),
        float(false),
        float(false),
        integer(8, 256, 8, false),
        integer(1, 12, 1, false),
        wide,
        words(),
        words(),
    ])
}

/// The slowest: every trial has other values of every parameter, and each value is a mass of two ends.
fn slowest() -> Space {
    space(vec![integer(1, 1_000_000, 1, true); 10])
}

fn trials(space: &Space) -> Vec<Trial> {
    let trial = |number| {
        let draw = Draw { seed: 1, number, round: 0 };
        let point = Random.propose(space, &[], Direction::Minimize, draw).swap_remove(0);
        let value = Some(point.values().map(|value| value.ln().abs()).sum());
        let state = if number % 50 == 49 { TrialState::Running } else { TrialState::Complete };
        Trial { state, value, ..Trial::new(number, point) }
    };
    (0..TRIALS).map(trial).collect()
}

fn decisions(criterion: &mut Criterion) {
    for (name, space) in [("tpe, 10 parameters", usual()), ("tpe, 10 wide ranges of integers", slowest())] {
        let trials = trials(&space);
        let draw = Draw { seed: 1, number: TRIALS, round: 0 };
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| Tpe::default().propose(&space, black_box(&trials), Direction::Minimize, draw));
        });
    }
    let asha = Asha::new(Rungs::new(1, 3, 81).expect("rungs"), Direction::Minimize);
    let paused: Vec<_> = trials(&usual())
        .into_iter()
        .map(|trial| Trial {
            state: TrialState::Paused,
            steps: [(1, trial.value.unwrap_or(0.0))].into(),
            ..trial
        })
        .collect();
    criterion.bench_function("asha", |bencher| bencher.iter(|| asha.next(black_box(&paused), Some(TRIALS))));
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    decisions(&mut criterion);
    criterion.final_summary();
}
