//! Which trials are good.

use std::cmp::Ordering;

use crate::{Direction, Trial, TrialState};

/// The trials that the densities are made of, each list by number.
pub(super) struct Split<'a> {
    pub(super) good: Vec<&'a Trial>,
    /// The others, running ones among them.
    pub(super) others: Vec<&'a Trial>,
    /// How many trials count, running ones left out.
    pub(super) finished: usize,
}

/// The most good trials.
const MOST_GOOD: usize = 25;

impl<'a> Split<'a> {
    /// Divides trials, which come by number.
    pub(super) fn of(trials: Vec<&'a Trial>, direction: Direction) -> Self {
        let mut ranked: Vec<(Rank, &Trial)> =
            trials.iter().filter_map(|trial| Some((Rank::of(trial, direction)?, *trial))).collect();
        let finished = ranked.len();
        // Stable: of equal trials the earlier one is the better one.
        ranked.sort_by(|(left, _), (right, _)| left.cmp(right));
        let count = finished.div_ceil(10).min(MOST_GOOD);
        let mut ranked: Vec<_> = ranked.into_iter().map(|(_, trial)| trial).collect();
        let mut others = ranked.split_off(count);
        let mut good = ranked;
        others.extend(trials.into_iter().filter(|trial| trial.state == TrialState::Running));
        [&mut good, &mut others].into_iter().for_each(|list| list.sort_by_key(|trial| trial.number));
        Self { good, others, finished }
    }
}

/// How good a trial is: smaller is better.
#[derive(Clone, Copy, Debug)]
struct Rank {
    /// 0 for complete trials, 1 for paused and pruned ones, 2 for infeasible ones.
    kind: u8,
    /// More steps are better. A trial without a step is behind those of any.
    steps: Option<u64>,
    loss: f64,
}

impl Rank {
    /// The rank of a trial; `None` for one that has none.
    fn of(trial: &Trial, direction: Direction) -> Option<Self> {
        match trial.state {
            TrialState::Waiting | TrialState::Running | TrialState::Failed => None,
            TrialState::Complete => {
                let value = trial.value.filter(|value| !value.is_nan())?;
                Some(Self { kind: 0, steps: None, loss: direction.loss(value) })
            }
            TrialState::Paused | TrialState::Pruned => {
                let last = trial.steps.last_key_value();
                let loss = last.map_or(0.0, |(_, value)| direction.loss(*value));
                Some(Self { kind: 1, steps: last.map(|(step, _)| *step), loss })
            }
            TrialState::Infeasible => Some(Self { kind: 2, steps: None, loss: trial.violation }),
        }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let by_steps = || other.steps.cmp(&self.steps);
        // −0 and 0 are equal.
        let by_loss = || self.loss.partial_cmp(&other.loss).unwrap_or(Ordering::Equal);
        self.kind.cmp(&other.kind).then_with(by_steps).then_with(by_loss)
    }
}
