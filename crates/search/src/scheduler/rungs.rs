use crate::{Direction, SearchError, Trial, TrialState};

/// The steps at which trials are compared: r, r·η, r·η², … below R, and last R itself, where a trial is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rungs {
    levels: Vec<u64>,
    eta: u64,
}

impl Rungs {
    /// The rungs from `min` (r), by factors of `eta` (η), to the whole length `max` (R).
    ///
    /// # Errors
    ///
    /// If `min` is 0 or above `max`, or `eta` is below 2.
    pub fn new(min: u64, eta: u64, max: u64) -> Result<Self, SearchError> {
        if min == 0 || min > max || eta < 2 {
            return Err(SearchError::Rungs { min, eta, max });
        }
        let levels = std::iter::successors(Some(min), |level| level.checked_mul(eta));
        Ok(Self { levels: levels.take_while(|level| *level < max).chain([max]).collect(), eta })
    }

    /// The steps of the rungs, in ascending order.
    pub fn levels(&self) -> &[u64] {
        &self.levels
    }

    /// The factor between rungs.
    pub fn eta(&self) -> u64 {
        self.eta
    }

    /// The same without the first `count` rungs; the last one stays.
    pub(super) fn without(&self, count: usize) -> Self {
        let count = count.min(self.levels.len() - 1);
        Self { levels: self.levels.get(count..).unwrap_or_default().to_vec(), eta: self.eta }
    }

    /// The first rung's step.
    pub(super) fn first(&self) -> u64 {
        self.level(0)
    }

    /// The step of a rung; the whole length beyond the last.
    pub(super) fn level(&self, rung: usize) -> u64 {
        // There is a level at least.
        self.levels.get(rung).or(self.levels.last()).copied().unwrap_or(u64::MAX)
    }

    /// The index of the last rung.
    pub(super) fn last(&self) -> usize {
        self.levels.len() - 1
    }

    /// The highest rung that is at most `step`.
    pub(super) fn at(&self, step: u64) -> Option<usize> {
        self.levels.iter().rposition(|level| *level <= step)
    }

    /// The highest rung that a trial has reached.
    pub(super) fn reached(&self, trial: &Trial) -> Option<usize> {
        self.at(*trial.steps.last_key_value()?.0)
    }

    /// The step of the rung after the highest that a trial has reached.
    pub(super) fn after(&self, trial: &Trial) -> u64 {
        self.level(self.reached(trial).map_or(0, |rung| rung + 1))
    }

    /// The trials that have reached `rung`, the best first; of equal ones the one that began first. A trial's value there is the
    /// first that it told at the rung's step or after it.
    pub(super) fn arrived<'a>(
        &self,
        rung: usize,
        trials: &[&'a Trial],
        direction: Direction,
    ) -> Vec<Arrival<'a>> {
        let level = self.level(rung);
        let arrival = |trial: &&'a Trial| {
            let (_, value) = trial.steps.range(level..).next()?;
            let is_paused = trial.state == TrialState::Paused && self.reached(trial) == Some(rung);
            Some(Arrival { trial, loss: direction.loss(*value), is_paused })
        };
        let mut arrived: Vec<_> = trials.iter().filter_map(arrival).collect();
        let by_number = |left: &Arrival<'_>, right: &Arrival<'_>| left.trial.number.cmp(&right.trial.number);
        arrived.sort_by(|left, right| left.loss.total_cmp(&right.loss).then_with(|| by_number(left, right)));
        arrived
    }
}

/// A trial that has reached a rung.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) trial: &'a Trial,
    pub(super) loss: f64,
    /// Whether it stands at this rung, and was not promoted yet.
    pub(super) is_paused: bool,
}
