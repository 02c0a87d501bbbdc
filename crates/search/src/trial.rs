use std::collections::BTreeMap;

use crate::space::Point;

/// Whether small or large values are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Small values, as of a loss.
    Minimize,
    /// Large values, as of an accuracy.
    Maximize,
}

impl Direction {
    /// `value` with the sign that makes small ones good. NaN becomes infinite: it is worse than every number.
    pub fn loss(self, value: f64) -> f64 {
        match self {
            _ if value.is_nan() => f64::INFINITY,
            Self::Minimize => value,
            Self::Maximize => -value,
        }
    }
}

/// A trial, as samplers and schedulers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Its number, from 0 in the order of creation.
    pub number: usize,
    /// Its point.
    pub point: Point,
    /// How far it is.
    pub state: TrialState,
    /// Its final value, once it is complete.
    pub value: Option<f64>,
    /// Its value after some steps, by step. A scheduler compares trials by them.
    pub steps: BTreeMap<u64, f64>,
    /// By how much it violates its constraints, such as the share of memory that it lacks: above 0 for an infeasible trial,
    /// 0 for others. Ranks infeasible trials.
    pub violation: f64,
}

impl Trial {
    /// A trial that has begun, and told nothing yet.
    pub fn new(number: usize, point: Point) -> Self {
        Self {
            number,
            point,
            state: TrialState::Running,
            value: None,
            steps: BTreeMap::new(),
            violation: 0.0,
        }
    }
}

/// How far a trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrialState {
    /// Made in advance, and not begun.
    Waiting,
    /// A worker works on it, or was interrupted.
    Running,
    /// It stands at a rung, and may continue.
    Paused,
    /// It was trained to its end, and has a value.
    Complete,
    /// It was given up before its end; its [`Trial::steps`] say how good it was.
    Pruned,
    /// It has no value: it failed, or its value is not a number.
    Failed,
    /// It does not fit into memory, and was not begun.
    Infeasible,
}
