//! Rules that stop or pause trials: ours, Ray's and Optuna's.

use std::collections::BTreeMap;

use oomph_search::{Asha, Direction, Next, Rungs, Scheduler, ToTheEnd, Trial, Verdict};

/// What is played: asked after every epoch. Losses are small where they are good.
pub(crate) enum Rule {
    /// One of `oomph-search`.
    Scheduler(Box<dyn Scheduler>),
    /// `AsyncHyperBandScheduler` of Ray Tune with one bracket: at each rung once, a trial stops that is below the (1 − 1/η) percentile
    /// of those before.
    Ray { eta: u64, max: u64, recorded: BTreeMap<u64, BTreeMap<usize, f64>> },
    /// `SuccessiveHalvingPruner` of Optuna: at each rung a trial stops unless it is at most the ⌊n/η⌋-th value, itself included; of
    /// less than η trials, unless it is the best.
    Optuna { eta: u64, max: u64, recorded: BTreeMap<u64, BTreeMap<usize, f64>> },
}

impl Rule {
    pub(crate) fn random(max: u64) -> Self {
        Self::Scheduler(Box::new(ToTheEnd { max }))
    }

    pub(crate) fn asha(rungs: Rungs) -> Self {
        Self::Scheduler(Box::new(Asha::new(rungs, Direction::Minimize)))
    }

    pub(crate) fn ray(eta: u64, max: u64) -> Self {
        Self::Ray { eta, max, recorded: BTreeMap::new() }
    }

    pub(crate) fn optuna(eta: u64, max: u64) -> Self {
        Self::Optuna { eta, max, recorded: BTreeMap::new() }
    }

    pub(crate) fn next(&self, trials: &[Trial], new: Option<usize>) -> Next {
        match self {
            Self::Scheduler(scheduler) => scheduler.next(trials, new),
            // They pause no trial.
            Self::Ray { max, .. } | Self::Optuna { max, .. } => ToTheEnd { max: *max }.next(trials, new),
        }
    }

    /// What becomes of trial `number`, whose loss after `epoch` is `loss`, and the last of its steps.
    pub(crate) fn at_epoch(&mut self, trials: &[Trial], number: usize, epoch: u64, loss: f64) -> Verdict {
        match self {
            Self::Scheduler(scheduler) => scheduler.at_step(trials, number, epoch),
            Self::Ray { max, .. } | Self::Optuna { max, .. } if epoch >= *max => {
                Verdict::Continue { until: *max }
            }
            Self::Ray { eta, max, recorded } => {
                let rungs: Vec<_> = levels(*eta, *max).collect();
                let rung = rungs.into_iter().rev().find(|level| {
                    epoch >= *level && !recorded.get(level).is_some_and(|rung| rung.contains_key(&number))
                });
                let Some(level) = rung else { return Verdict::Continue { until: *max } };
                let known = recorded.entry(level).or_default();
                let losses = known.values().copied().filter(|loss| !loss.is_nan()).collect();
                let is_bad = percentile(losses, 1.0 / *eta as f64).is_some_and(|cutoff| loss > cutoff);
                known.insert(number, loss);
                if is_bad || loss.is_nan() { Verdict::Stop } else { Verdict::Continue { until: *max } }
            }
            Self::Optuna { eta, max, recorded } => {
                for level in levels(*eta, *max) {
                    let is_done = recorded.get(&level).is_some_and(|rung| rung.contains_key(&number));
                    if is_done {
                        continue;
                    }
                    if epoch < level {
                        break;
                    }
                    if loss.is_nan() {
                        return Verdict::Stop;
                    }
                    let known = recorded.entry(level).or_default();
                    known.insert(number, loss);
                    let mut losses: Vec<_> = known.values().copied().collect();
                    losses.sort_by(f64::total_cmp);
                    let place = (losses.len() / *eta as usize).saturating_sub(1);
                    if losses.get(place).is_none_or(|cutoff| loss > *cutoff) {
                        return Verdict::Stop;
                    }
                }
                Verdict::Continue { until: *max }
            }
        }
    }
}

/// 1, η, η², … up to the whole length.
fn levels(eta: u64, max: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(1_u64), move |level| level.checked_mul(eta))
        .take_while(move |level| *level <= max)
}

/// numpy's percentile: `share` of the way through the sorted values, linear between neighbours.
fn percentile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = share * values.len().checked_sub(1)? as f64;
    let [lower, upper] = [place.floor(), place.ceil()].map(|place| values[place as usize]);
    Some(lower + (upper - lower) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(mut rule: Rule, losses: &[f64]) -> Vec<bool> {
        let at_first = losses.iter().enumerate().map(|(number, loss)| rule.at_epoch(&[], number, 1, *loss));
        at_first.map(|verdict| verdict != Verdict::Stop).collect()
    }

    #[test]
    fn ray_stops_below_the_percentile_of_those_before() {
        // After 1 and 2 the cutoff of η = 4 is 1.25, after 1, 2 and 1.2 it is 1.1.
        let passes = verdicts(Rule::ray(4, 27), &[2.0, 1.0, 1.2, 1.15, f64::NAN]);
        assert_eq!(passes, [true, true, true, false, false]);
    }

    #[test]
    fn optuna_stops_above_the_best_quarter_with_the_trial_itself() {
        let passes = verdicts(Rule::optuna(4, 27), &[2.0, 3.0, 1.0, 1.5, 0.5, 0.9, 0.8, 0.7, 0.4]);
        // Of 8 values the second passes: 0.7 beside 0.5.
        assert_eq!(passes, [true, false, true, false, true, false, false, true, true]);
    }

    #[test]
    fn percentiles_are_numpys() {
        assert_eq!(percentile(vec![], 0.5), None);
        assert_eq!(percentile(vec![4.0, 1.0, 2.0], 0.25), Some(1.5));
        assert_eq!(percentile(vec![4.0, 1.0, 2.0], 1.0), Some(4.0));
    }
}
