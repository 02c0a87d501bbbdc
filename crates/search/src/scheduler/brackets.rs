//! Successive halving, asynchronously, in one bracket or several.

use std::collections::BTreeSet;

use super::{Next, Rungs, Scheduler, Verdict, begin_or_wait, rungs::Arrival};
use crate::{Direction, Trial, TrialState};

/// Successive halving without waiting, by promotion: algorithm 2 of [Li et al. 2020](https://arxiv.org/abs/1810.05934).
///
/// Each trial is paused at each rung. A free worker looks through the rungs from the top: of the n trials that have reached a rung,
/// the best ⌊n/η⌋ are promoted, each once. It continues the best that was not promoted yet. If there is none at any rung, it begins a
/// trial. So no worker waits for others, and a trial that looked bad among few continues when it is good among many.
///
/// A trial counts at a rung from when it has arrived, whatever became of it. A trial whose value there is NaN is not promoted.
/// A trial that would be promoted at once is not paused.
///
/// The paper's algorithm never ends. Here a study may end with so few trials that none is complete. Then the best of those
/// that came furthest continues to its end, so that a study has a result.
#[derive(Clone, Debug)]
pub struct Asha(Brackets);

impl Asha {
    /// ASHA over `rungs`.
    pub fn new(rungs: Rungs, direction: Direction) -> Self {
        Self(Brackets { brackets: vec![Bracket { rungs, share: 1.0 }], direction })
    }
}

/// Hyperband ([Li et al. 2018](https://jmlr.org/papers/v18/16-558.html)), asynchronously: as many brackets of [`Asha`] as there are
/// numbers of rungs, ⌊log_η(R/r)⌋ + 1.
///
/// Bracket s has the rungs from r·η^(S−s) on, so that the last of the brackets trains each trial to the end. In Hyperband bracket
/// number s counted from there has ⌈(S + 1)/(s + 1) · η^s⌉ trials, which makes the steps of all brackets about equal. Here the
/// trials are distributed in these proportions: the number of a trial alone says its bracket, by the fraction of its multiple of
/// the golden ratio, which spreads consecutive trials evenly over the brackets.
#[derive(Clone, Debug)]
pub struct Hyperband(Brackets);

impl Hyperband {
    /// Hyperband over `rungs`, the rungs of its bracket with the most.
    pub fn new(rungs: &Rungs, direction: Direction) -> Self {
        let [first, max] = [rungs.first(), rungs.level(rungs.last())];
        // ⌊log_η(R/r)⌋, in integers.
        let most = (1..)
            .take_while(|power| rungs.eta().checked_pow(*power).is_some_and(|it| it <= max / first))
            .count();
        let trials =
            |s: usize| ((most + 1) as f64 / (s + 1) as f64 * (rungs.eta() as f64).powi(s as i32)).ceil();
        let sum: f64 = (0..=most).map(trials).sum();
        let bracket = |s: usize| Bracket { rungs: rungs.without(most - s), share: trials(s) / sum };
        Self(Brackets { brackets: (0..=most).rev().map(bracket).collect(), direction })
    }

    /// The rungs of each bracket, the one with the most rungs first.
    pub fn brackets(&self) -> impl Iterator<Item = &Rungs> {
        self.0.brackets.iter().map(|bracket| &bracket.rungs)
    }

    /// The index of the bracket of a trial.
    pub fn bracket_of(&self, number: usize) -> usize {
        self.0.bracket_of(number)
    }
}

impl Scheduler for Asha {
    fn next(&self, trials: &[Trial], new: Option<usize>) -> Next {
        self.0.next(trials, new)
    }

    fn at_step(&self, trials: &[Trial], number: usize, step: u64) -> Verdict {
        self.0.at_step(trials, number, step)
    }

    fn promotable(&self, trials: &[Trial], left: usize) -> BTreeSet<usize> {
        self.0.promotable(trials, left)
    }
}

impl Scheduler for Hyperband {
    fn next(&self, trials: &[Trial], new: Option<usize>) -> Next {
        self.0.next(trials, new)
    }

    fn at_step(&self, trials: &[Trial], number: usize, step: u64) -> Verdict {
        self.0.at_step(trials, number, step)
    }

    fn promotable(&self, trials: &[Trial], left: usize) -> BTreeSet<usize> {
        self.0.promotable(trials, left)
    }
}

#[derive(Clone, Debug)]
struct Brackets {
    brackets: Vec<Bracket>,
    direction: Direction,
}

#[derive(Clone, Debug)]
struct Bracket {
    rungs: Rungs,
    /// The share of all trials that is in it.
    share: f64,
}

/// The golden ratio as a fraction of 2^64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Brackets {
    fn bracket_of(&self, number: usize) -> usize {
        let mut left = (number as u64).wrapping_mul(GOLDEN) as f64 / 2_f64.powi(64);
        let is_in = |bracket: &Bracket| {
            left -= bracket.share;
            left < 0.0
        };
        self.brackets.iter().position(is_in).unwrap_or(self.brackets.len() - 1)
    }

    fn rungs_of(&self, number: usize) -> &Rungs {
        &self.brackets[self.bracket_of(number)].rungs
    }

    /// Each bracket's rungs with its trials.
    fn divided<'a>(&'a self, trials: &[&'a Trial]) -> Vec<(&'a Rungs, Vec<&'a Trial>)> {
        let in_bracket = |index| {
            trials
                .iter()
                .copied()
                .filter(move |trial: &&Trial| self.bracket_of(trial.number) == index)
                .collect()
        };
        self.brackets.iter().enumerate().map(|(index, bracket)| (&bracket.rungs, in_bracket(index))).collect()
    }

    /// The trial to continue, and until where.
    fn promotion(&self, trials: &[&Trial]) -> Option<(usize, u64)> {
        // A trial that stands before the first rung was paused for another reason.
        let is_early = |trial: &&&Trial| {
            trial.state == TrialState::Paused && self.rungs_of(trial.number).reached(trial).is_none()
        };
        if let Some(trial) = trials.iter().filter(is_early).min_by_key(|trial| trial.number) {
            return Some((trial.number, self.rungs_of(trial.number).first()));
        }
        let divided = self.divided(trials);
        let all = divided
            .iter()
            .flat_map(|(rungs, trials)| (0..rungs.last()).map(move |rung| (*rungs, rung, trials)));
        let mut from_top: Vec<_> = all.collect();
        // Stable: of equal levels, the bracket with more rungs comes first.
        from_top.sort_by_key(|(rungs, rung, _)| std::cmp::Reverse(rungs.level(*rung)));
        from_top.into_iter().find_map(|(rungs, rung, trials)| {
            let arrived = rungs.arrived(rung, trials, self.direction);
            let best = arrived.iter().take(quota(arrived.len(), rungs));
            best.filter(|it| can_continue(it)).map(|it| (it.trial.number, rungs.level(rung + 1))).next()
        })
    }

    fn next(&self, trials: &[Trial], new: Option<usize>) -> Next {
        if let Some((number, until)) = self.promotion(&trials.iter().collect::<Vec<_>>()) {
            return Next::Resume { number, until };
        }
        match begin_or_wait(trials, new.map(|number| self.rungs_of(number).first())) {
            Next::Finished => self.last_resort(trials).map_or(Next::Finished, |trial| Next::Resume {
                number: trial.number,
                until: self.rungs_of(trial.number).after(trial),
            }),
            next => next,
        }
    }

    /// The trial that continues at the end of a study of which no trial is complete: the best of those that came furthest.
    fn last_resort<'a>(&self, trials: &'a [Trial]) -> Option<&'a Trial> {
        if trials.iter().any(|trial| trial.state == TrialState::Complete) {
            return None;
        }
        let standing = trials.iter().filter(|trial| trial.state == TrialState::Paused).filter_map(|trial| {
            let (step, value) = trial.steps.last_key_value()?;
            let loss = self.direction.loss(*value);
            (loss < f64::INFINITY).then_some((*step, loss, trial))
        });
        let better = |one: &(u64, f64, &Trial), other: &(u64, f64, &Trial)| {
            let by_number = || one.2.number.cmp(&other.2.number);
            other.0.cmp(&one.0).then(one.1.total_cmp(&other.1)).then_with(by_number)
        };
        standing.min_by(better).map(|(.., trial)| trial)
    }

    fn at_step(&self, trials: &[Trial], number: usize, step: u64) -> Verdict {
        let rungs = self.rungs_of(number);
        let Some(rung) = rungs.at(step) else { return Verdict::Continue { until: rungs.first() } };
        let until = rungs.level(rung + 1);
        let told = trials.iter().find(|trial| trial.number == number);
        let first = told.and_then(|trial| trial.steps.range(rungs.level(rung)..).next());
        match first {
            Some((_, value)) if value.is_nan() => Verdict::Stop,
            // It is complete, or was promoted from this rung already.
            _ if rung == rungs.last() => Verdict::Continue { until },
            Some((first, _)) if *first < step => Verdict::Continue { until },
            _ => {
                let paused = told.map(|trial| Trial { state: TrialState::Paused, ..trial.clone() });
                let others = trials.iter().filter(|trial| trial.number != number);
                let all: Vec<_> = others.chain(&paused).collect();
                match self.promotion(&all) {
                    Some((promoted, until)) if promoted == number => Verdict::Continue { until },
                    _ => Verdict::Pause,
                }
            }
        }
    }

    fn promotable(&self, trials: &[Trial], left: usize) -> BTreeSet<usize> {
        // Until a trial is complete, each may become the last resort.
        if self.last_resort(trials).is_some() {
            let paused = trials.iter().filter(|trial| trial.state == TrialState::Paused);
            return paused.map(|trial| trial.number).collect();
        }
        let trials: Vec<_> = trials.iter().collect();
        let divided = self.divided(&trials);
        divided
            .into_iter()
            .flat_map(|(rungs, trials)| promotable(rungs, &trials, left, self.direction))
            .collect()
    }
}

/// How many of the trials at a rung are promoted.
fn quota(arrived: usize, rungs: &Rungs) -> usize {
    // A number of trials fits.
    (arrived as u64 / rungs.eta()) as usize
}

fn can_continue(arrival: &Arrival<'_>) -> bool {
    arrival.is_paused && arrival.loss < f64::INFINITY
}

/// The paused trials of a bracket that may still continue.
///
/// A trial of rank i among n at its rung is never promoted where i > ⌊(n + m)/η⌋ and at most m trials may yet arrive there: they can
/// only make its rank worse.
fn promotable(rungs: &Rungs, trials: &[&Trial], left: usize, direction: Direction) -> Vec<usize> {
    let running_after = |rung: Option<usize>| {
        trials
            .iter()
            .filter(|trial| trial.state == TrialState::Running && rungs.reached(trial) == rung)
            .count()
    };
    let before_first =
        trials.iter().filter(|trial| trial.state == TrialState::Paused && rungs.reached(trial).is_none());
    let mut kept: Vec<_> = before_first.map(|trial| trial.number).collect();
    let mut arriving = left.saturating_add(running_after(None)).saturating_add(kept.len());
    for rung in 0..rungs.last() {
        let arrived = rungs.arrived(rung, trials, direction);
        let best = arrived.iter().take(quota(arrived.len().saturating_add(arriving), rungs));
        let here: Vec<_> = best.filter(|it| can_continue(it)).map(|it| it.trial.number).collect();
        // Each of those that may continue or arrive here may arrive at the next rung.
        arriving = arriving.saturating_add(running_after(Some(rung))).saturating_add(here.len());
        kept.extend(here);
    }
    kept
}
