//! Scores of candidates equal those of Optuna 5.0.0. `tools/golden/tpe.py` writes the golden values.

use std::collections::BTreeMap;

use oomph_search::{Choice, Direction, Domain, Parameter, Point, Space, Tpe, Trial, TrialState, When};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    direction: String,
    space: BTreeMap<String, GoldenDomain>,
    trials: Vec<GoldenTrial>,
    candidates: Vec<Point>,
    scores: Vec<f64>,
}

#[derive(Deserialize)]
struct GoldenDomain {
    kind: String,
    #[serde(default)]
    low: f64,
    #[serde(default)]
    high: f64,
    step: Option<f64>,
    #[serde(default)]
    log: bool,
    #[serde(default)]
    count: i64,
    when: Option<(String, Vec<usize>)>,
}

#[derive(Deserialize)]
struct GoldenTrial {
    number: usize,
    state: String,
    point: Point,
    value: Option<f64>,
    steps: Vec<(u64, f64)>,
    violation: f64,
}

impl GoldenDomain {
    fn parameter(self, name: String) -> Parameter {
        let domain = match &*self.kind {
            "float" => Domain::Float { low: self.low, high: self.high, step: self.step, log: self.log },
            "integer" => {
                let step = self.step.map_or(1, |step| step as i64);
                Domain::Integer { low: self.low as i64, high: self.high as i64, step, log: self.log }
            }
            _ => Domain::Choice((0..self.count).map(Choice::Integer).collect()),
        };
        let when = self.when.map(|(parameter, choices)| When { parameter, choices });
        Parameter { name, domain, when }
    }
}

impl GoldenTrial {
    fn trial(self) -> Trial {
        let state = match &*self.state {
            "complete" => TrialState::Complete,
            "pruned" => TrialState::Pruned,
            "paused" => TrialState::Paused,
            "running" => TrialState::Running,
            "infeasible" => TrialState::Infeasible,
            "failed" => TrialState::Failed,
            "waiting" => TrialState::Waiting,
            other => panic!("unknown state {other}"),
        };
        let steps = self.steps.into_iter().collect();
        Trial {
            state,
            value: self.value,
            steps,
            violation: self.violation,
            ..Trial::new(self.number, self.point)
        }
    }
}

#[test]
fn scores_are_those_of_optuna() {
    let golden: Golden = serde_json::from_str(include_str!("golden/tpe.json")).unwrap();
    let mut compared = 0;
    for case in golden.cases {
        let parameters = case.space.into_iter().map(|(name, domain)| domain.parameter(name));
        let space = Space::new(parameters.collect()).unwrap();
        let trials: Vec<_> = case.trials.into_iter().map(GoldenTrial::trial).collect();
        let direction = match &*case.direction {
            "minimize" => Direction::Minimize,
            _ => Direction::Maximize,
        };
        let scores = Tpe::default().scores(&space, &trials, direction, &case.candidates);
        for (index, (score, expected)) in scores.iter().zip(&case.scores).enumerate() {
            let difference = (score - expected).abs();
            assert!(
                difference <= 1e-10,
                "{}: candidate {index} has {score}, in Optuna {expected}",
                case.name
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 40 * 48);
}
