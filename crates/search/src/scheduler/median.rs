use std::collections::BTreeSet;

use super::{Next, Scheduler, Verdict, begin_or_wait};
use crate::{Direction, Trial, TrialState};

/// Prunes a trial whose best value so far is worse than the median of the others' running averages at the same step
/// ([Golovin et al. 2017](https://doi.org/10.1145/3097983.3098043), section 3.2.2).
///
/// The others are the complete trials. A running average is the mean of a trial's values up to the step.
#[derive(Clone, Copy, Debug)]
pub struct Median {
    /// Whether small or large values are good.
    pub direction: Direction,
    /// The steps before which nothing is pruned.
    pub min: u64,
    /// The number of complete trials before which nothing is pruned.
    pub startup: usize,
    /// The whole length of a trial, in steps.
    pub max: u64,
}

impl Scheduler for Median {
    fn next(&self, trials: &[Trial], new: Option<usize>) -> Next {
        ToTheEnd { max: self.max }.next(trials, new)
    }

    fn at_step(&self, trials: &[Trial], number: usize, step: u64) -> Verdict {
        let goes_on = Verdict::Continue { until: self.max };
        let told = trials.iter().find(|trial| trial.number == number).map(|trial| self.losses(trial, step));
        let told = told.unwrap_or_default();
        if told.last().is_some_and(|loss| *loss == f64::INFINITY) {
            return Verdict::Stop;
        }
        let complete =
            trials.iter().filter(|trial| trial.state == TrialState::Complete && trial.number != number);
        let averages = complete.map(|trial| self.losses(trial, step)).filter(|losses| !losses.is_empty());
        let averages: Vec<_> = averages.map(|it| it.iter().sum::<f64>() / it.len() as f64).collect();
        if step < self.min || averages.len() < self.startup {
            return goes_on;
        }
        let best = told.into_iter().fold(f64::INFINITY, f64::min);
        match median(averages) {
            Some(median) if best > median => Verdict::Stop,
            _ => goes_on,
        }
    }

    fn promotable(&self, trials: &[Trial], left: usize) -> BTreeSet<usize> {
        ToTheEnd { max: self.max }.promotable(trials, left)
    }
}

impl Median {
    /// What a trial told up to `step`, small is good.
    fn losses(&self, trial: &Trial, step: u64) -> Vec<f64> {
        trial.steps.range(..=step).map(|(_, value)| self.direction.loss(*value)).collect()
    }
}

/// The median; of an even number the mean of both in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// Trains every trial to its end.
#[derive(Clone, Copy, Debug)]
pub struct ToTheEnd {
    /// The whole length of a trial, in steps.
    pub max: u64,
}

impl Scheduler for ToTheEnd {
    fn next(&self, trials: &[Trial], new: Option<usize>) -> Next {
        let paused = trials.iter().filter(|trial| trial.state == TrialState::Paused);
        match paused.map(|trial| trial.number).min() {
            Some(number) => Next::Resume { number, until: self.max },
            None => begin_or_wait(trials, new.map(|_| self.max)),
        }
    }

    fn at_step(&self, _: &[Trial], _: usize, _: u64) -> Verdict {
        Verdict::Continue { until: self.max }
    }

    fn promotable(&self, trials: &[Trial], _: usize) -> BTreeSet<usize> {
        trials.iter().filter(|trial| trial.state == TrialState::Paused).map(|trial| trial.number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Point;

    fn trial(number: usize, state: TrialState, values: &[f64]) -> Trial {
        let steps = (1..).zip(values.iter().copied()).collect();
        Trial { state, steps, ..Trial::new(number, Point::new()) }
    }

    #[test]
    fn a_trial_below_the_median_of_averages_is_stopped() {
        let scheduler = Median { direction: Direction::Maximize, min: 2, startup: 3, max: 9 };
        let averages_of_2_at_step_2 = [
            trial(0, TrialState::Complete, &[1.0, 3.0, 9.0]),
            trial(1, TrialState::Complete, &[0.0, 1.0, 0.0]),
            trial(2, TrialState::Complete, &[5.0, 5.0, 0.0]),
            // It is not complete.
            trial(3, TrialState::Running, &[9.0, 9.0]),
        ];
        let verdict = |values: &[f64], count: usize| {
            let all = averages_of_2_at_step_2.iter().skip(3 - count).cloned();
            let all: Vec<_> = all.chain([trial(4, TrialState::Running, values)]).collect();
            scheduler.at_step(&all, 4, values.len() as u64)
        };
        let goes_on = Verdict::Continue { until: 9 };
        assert_eq!(verdict(&[1.9, 1.0], 3), Verdict::Stop);
        assert_eq!(verdict(&[2.0, 1.0], 3), goes_on);
        assert_eq!(verdict(&[1.0], 3), goes_on);
        assert_eq!(verdict(&[1.0, 1.0], 2), goes_on);
        assert_eq!(verdict(&[1.0, f64::NAN], 2), Verdict::Stop);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
