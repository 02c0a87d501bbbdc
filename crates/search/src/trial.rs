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

/// A trial, as samplers and schedulers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Its number, from 0 in the order of creation.
    pub number: usize,
    /// Its point.
    pub point: Point,
    /// How far it is.
    pub state: State,
    /// Its final value, once it is complete.
    pub value: Option<f64>,
    /// Its value after some steps, by step. A scheduler compares trials by them.
    pub steps: BTreeMap<u64, f64>,
}

/// How far a trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Made in advance, and not begun.
    Waiting,
    /// A worker works on it.
    Running,
    /// It stands at a rung, and may go on.
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
