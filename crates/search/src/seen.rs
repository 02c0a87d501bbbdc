use crate::{Trial, TrialState};

/// The trials that a decision about trial `number` may depend on, in a study of `workers` workers that repeats to the byte.
///
/// Results of trials up to `number` − `workers` are seen alone. Those after them seem to run, and have told nothing: whether they
/// are over by now depends on the machine. Their points are seen, so that a sampler keeps away from them; each was decided before
/// the next trial's. The trial itself and later ones are left out.
///
/// `None`: a trial up to `number` − `workers` is not over yet, or is not among `trials`. The worker has to wait for it. At least
/// one of `workers` workers never waits: the one whose trial has the least number.
///
/// Fits to [`Median`](crate::Median), which sees these trials and its own, and to [`ToTheEnd`](crate::ToTheEnd). With a scheduler that
/// pauses, a study would wait for trials that wait for others.
///
/// ```
/// use oomph_search::{Point, Trial, TrialState, seen};
///
/// let complete = |number| Trial { state: TrialState::Complete, value: Some(0.5), ..Trial::new(number, Point::new()) };
/// let trials = [complete(0), Trial::new(1, Point::new()), complete(2)];
/// // Of three workers the fourth trial sees the result of the first. The third trial is over, but that is a matter of luck.
/// let of_three = seen(&trials, 3, 3).unwrap();
/// assert_eq!(of_three, [complete(0), trials[1].clone(), Trial::new(2, Point::new())]);
/// // Of two workers it would see that of the second.
/// assert_eq!(seen(&trials, 3, 2), None);
/// ```
pub fn seen(trials: &[Trial], number: usize, workers: usize) -> Option<Vec<Trial>> {
    let before = (number + 1).saturating_sub(workers.max(1));
    let seen = |number: usize| {
        let trial = trials.iter().find(|trial| trial.number == number)?;
        let is_over = !matches!(trial.state, TrialState::Waiting | TrialState::Running | TrialState::Paused);
        match number < before {
            true => is_over.then(|| trial.clone()),
            false => Some(Trial::new(number, trial.point.clone())),
        }
    };
    (0..number).map(seen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Point;

    fn trial(number: usize, state: TrialState) -> Trial {
        Trial { state, value: Some(number as f64), ..Trial::new(number, Point::new()) }
    }

    #[test]
    fn one_worker_sees_every_result() {
        let trials: Vec<_> = (0..5).rev().map(|number| trial(number, TrialState::Complete)).collect();
        let by_number: Vec<_> = trials.iter().rev().cloned().collect();
        assert_eq!(seen(&trials, 5, 1), Some(by_number));
    }

    #[test]
    fn later_trials_and_their_luck_are_not_seen() {
        let states = [TrialState::Running, TrialState::Complete, TrialState::Failed, TrialState::Infeasible];
        let all: Vec<_> = states
            .map(|state| {
                let early = (0..2).map(|number| trial(number, TrialState::Complete));
                let late = (2..6).map(|number| trial(number, state));
                seen(&early.chain(late).collect::<Vec<_>>(), 4, 3)
            })
            .into();
        assert!(all[0].is_some() && all.iter().all(|one| *one == all[0]));
    }

    #[test]
    fn a_missing_or_open_trial_is_waited_for() {
        assert_eq!(seen(&[], 1, 1), None);
        assert_eq!(seen(&[trial(0, TrialState::Paused)], 1, 1), None);
        assert_eq!(seen(&[], 0, 1), Some(vec![]));
    }
}
