//! Properties of schedulers, over studies of several workers in virtual time.

use std::collections::{BTreeMap, BTreeSet};

use oomph_core::{Generator, Key};
use oomph_search::{
    Asha, Direction, Hyperband, Median, Next, Point, Rungs, Scheduler, ToTheEnd, Trial, TrialState, Verdict,
};
use proptest::prelude::*;

/// What happened in a study.
struct Study {
    trials: Vec<Trial>,
    /// Each time a trial was promoted from a rung: the trial and the step there.
    promotions: Vec<(usize, u64)>,
    /// For each trial that a scheduler gave up: the number of events before.
    given_up: BTreeMap<usize, usize>,
    /// For each trial: the number of events before it last continued.
    continued: BTreeMap<usize, usize>,
}

/// Lets workers train `count` trials with random losses. A tenth of all pieces of work ends in failure.
fn study(scheduler: &dyn Scheduler, count: usize, workers: usize, seed: u64) -> Study {
    let mut generator = Generator::at(Key::new(seed));
    let mut study = Study {
        trials: Vec::new(),
        promotions: Vec::new(),
        given_up: BTreeMap::new(),
        continued: BTreeMap::new(),
    };
    let mut busy: Vec<(usize, u64)> = Vec::new();
    for event in 0.. {
        let begun = study.trials.len();
        generator.shuffle(&mut study.trials);
        while busy.len() < workers {
            let new = (begun == study.trials.len() && begun < count).then_some(begun);
            match scheduler.next(&study.trials, new) {
                Next::Resume { number, until } => {
                    let trial = study.trials.iter_mut().find(|it| it.number == number).unwrap();
                    assert_eq!(trial.state, TrialState::Paused);
                    trial.state = TrialState::Running;
                    study.promotions.push((number, *trial.steps.last_key_value().unwrap().0));
                    study.continued.insert(number, event);
                    busy.push((number, until));
                }
                Next::Begin { until } => {
                    let number = new.unwrap();
                    study.trials.push(Trial::new(number, Point::new()));
                    busy.push((number, until));
                    break;
                }
                Next::Wait => break,
                Next::Finished => return study,
            }
        }
        if busy.len() < workers && study.trials.len() > begun {
            continue;
        }
        let (number, step) = busy.swap_remove(generator.below(busy.len()));
        let trial = study.trials.iter_mut().find(|it| it.number == number).unwrap();
        trial.steps.insert(step, f64::from(generator.uniform()));
        if generator.chance(0.1) {
            trial.state = TrialState::Failed;
        } else {
            let verdict = scheduler.at_step(&study.trials, number, step);
            let trial = study.trials.iter_mut().find(|it| it.number == number).unwrap();
            match verdict {
                Verdict::Continue { until } if until > step => {
                    study.promotions.push((number, step));
                    study.continued.insert(number, event);
                    busy.push((number, until));
                }
                Verdict::Continue { .. } => trial.state = TrialState::Complete,
                Verdict::Pause => trial.state = TrialState::Paused,
                Verdict::Stop => trial.state = TrialState::Pruned,
            }
        }
        let promotable = scheduler.promotable(&study.trials, count - study.trials.len());
        let paused = study.trials.iter().filter(|it| it.state == TrialState::Paused);
        for trial in paused.filter(|trial| !promotable.contains(&trial.number)) {
            study.given_up.entry(trial.number).or_insert(event);
        }
    }
    unreachable!("the loop returns")
}

fn schedulers(eta: u64, max: u64) -> Vec<Box<dyn Scheduler>> {
    let rungs = Rungs::new(1, eta, max).unwrap();
    vec![
        Box::new(Asha::new(rungs.clone(), Direction::Minimize)),
        Box::new(Hyperband::new(&rungs, Direction::Maximize)),
        Box::new(Median { direction: Direction::Minimize, min: 1, startup: 2, max }),
        Box::new(ToTheEnd { max }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_trial_is_promoted_at_most_once_from_a_rung(
        eta in 2_u64..5, max in 1_u64..100, count in 1_usize..60, workers in 1_usize..9, seed: u64,
    ) {
        for scheduler in schedulers(eta, max) {
            let study = study(&*scheduler, count, workers, seed);
            let distinct: BTreeSet<_> = study.promotions.iter().collect();
            prop_assert_eq!(distinct.len(), study.promotions.len());
            prop_assert_eq!(study.trials.len(), count);
        }
    }

    #[test]
    fn the_best_of_each_rung_are_promoted_at_the_end_and_few_others(
        eta in 2_u64..5, max in 1_u64..100, count in 1_usize..60, workers in 1_usize..9, seed: u64,
    ) {
        let rungs = Rungs::new(1, eta, max).unwrap();
        let study = study(&Asha::new(rungs.clone(), Direction::Minimize), count, workers, seed);
        for level in &rungs.levels()[..rungs.levels().len() - 1] {
            let mut arrived: Vec<_> = study.trials.iter().filter(|trial| trial.steps.contains_key(level)).collect();
            arrived.sort_by(|left, right| left.steps[level].total_cmp(&right.steps[level]));
            let promoted = study.promotions.iter().filter(|(_, step)| step == level).count();
            // None of the best is left, unless it failed there.
            let best = &arrived[..arrived.len() / eta as usize];
            let stands_here = |trial: &Trial| trial.steps.last_key_value().unwrap().0 == level;
            prop_assert!(best.iter().all(|it| it.state != TrialState::Paused || !stands_here(it)));
            // Those promoted wrongly were among the best of fewer: the k-th promotion needs η arrivals.
            prop_assert!(promoted <= arrived.len());
            // Of fewer, one is trained to its end where a study would end without a complete trial.
            let complete = study.trials.iter().filter(|it| it.state == TrialState::Complete).count();
            prop_assert!(promoted == 0 || arrived.len() >= eta as usize || complete <= 1);
        }
    }

    #[test]
    fn a_trial_that_was_given_up_is_never_promoted(
        eta in 2_u64..5, max in 1_u64..100, count in 1_usize..60, workers in 1_usize..9, seed: u64,
    ) {
        for scheduler in schedulers(eta, max) {
            let study = study(&*scheduler, count, workers, seed);
            for (number, event) in &study.given_up {
                prop_assert!(study.continued.get(number).is_none_or(|continued| continued <= event));
            }
            // At the end, all that are left are given up.
            let paused = study.trials.iter().filter(|it| it.state == TrialState::Paused);
            prop_assert!(paused.map(|it| it.number).all(|number| study.given_up.contains_key(&number)));
        }
    }

    #[test]
    fn decisions_depend_on_the_trials_and_not_on_their_order(
        eta in 2_u64..5, count in 1_usize..60, workers in 1_usize..9, seed: u64,
    ) {
        for scheduler in schedulers(eta, 81) {
            // Its trials stand in a random order, which differs from event to event.
            let study = study(&*scheduler, count, workers, seed);
            let mut sorted = study.trials.clone();
            sorted.sort_by_key(|trial| trial.number);
            sorted.truncate(count / 2 + 1);
            let mut shuffled = sorted.clone();
            Generator::at(Key::new(seed).with(1)).shuffle(&mut shuffled);
            prop_assert_eq!(scheduler.next(&sorted, Some(count)), scheduler.next(&shuffled, Some(count)));
            prop_assert_eq!(scheduler.promotable(&sorted, 3), scheduler.promotable(&shuffled, 3));
            for trial in &sorted {
                for step in trial.steps.keys() {
                    let verdict = |trials: &[Trial]| scheduler.at_step(trials, trial.number, *step);
                    prop_assert_eq!(verdict(&sorted), verdict(&shuffled));
                }
            }
        }
    }

    #[test]
    fn hyperband_has_as_many_brackets_as_rungs_fit_and_distributes_trials_by_cost(
        eta in 2_u64..5, min in 1_u64..4, max in 4_u64..200,
    ) {
        let hyperband = Hyperband::new(&Rungs::new(min, eta, max).unwrap(), Direction::Minimize);
        let brackets: Vec<_> = hyperband.brackets().collect();
        let most = (0..).take_while(|power| min * eta.pow(*power) <= max).count() - 1;
        prop_assert_eq!(brackets.len(), most + 1);
        for (index, bracket) in brackets.iter().enumerate() {
            let first = (min * eta.pow(index as u32)).min(max);
            let levels = bracket.levels();
            prop_assert_eq!((levels[0], levels[levels.len() - 1]), (first, max));
        }
        let trials = |s: usize| ((most + 1) as f64 / (s + 1) as f64 * (eta as f64).powi(s as i32)).ceil();
        let sum: f64 = (0..=most).map(trials).sum();
        let mut counts = vec![0; brackets.len()];
        (0..10_000).for_each(|number| counts[hyperband.bracket_of(number)] += 1);
        for (index, count) in counts.iter().enumerate() {
            // Multiples of the golden ratio are spread evenly: no share is off by more than a few trials.
            let expected = 10_000.0 * trials(most - index) / sum;
            prop_assert!((f64::from(*count) - expected).abs() < 10.0, "{counts:?}");
        }
    }
}

fn trial(number: usize, state: TrialState, steps: &[(u64, f64)]) -> Trial {
    Trial { state, steps: steps.iter().copied().collect(), ..Trial::new(number, Point::new()) }
}

#[test]
fn a_worker_looks_through_the_rungs_from_the_top() {
    let asha = Asha::new(Rungs::new(1, 3, 9).unwrap(), Direction::Minimize);
    let paused = |number, steps: &[(u64, f64)]| trial(number, TrialState::Paused, steps);
    let mut trials = vec![
        paused(0, &[(1, 0.1), (3, 0.3)]),
        paused(1, &[(1, 0.2), (3, 0.2)]),
        paused(2, &[(1, 0.3)]),
        paused(3, &[(1, 0.9)]),
        paused(4, &[(1, 0.8)]),
    ];
    // At the first rung ⌊5/3⌋ = 1 is promoted, at the second ⌊2/3⌋ = 0: a trial begins.
    assert_eq!(asha.next(&trials, Some(5)), Next::Begin { until: 1 });
    assert_eq!(
        asha.next(&trials, None),
        Next::Resume { number: 1, until: 9 },
        "the study needs a complete trial"
    );
    // With four more, two are still enough, with a ninth the third is promoted.
    trials.extend((5..8).map(|number| paused(number, &[(1, 0.7)])));
    assert_eq!(asha.next(&trials, Some(8)), Next::Begin { until: 1 });
    trials.push(trial(8, TrialState::Running, &[(1, 0.7)]));
    assert_eq!(asha.next(&trials, Some(9)), Next::Resume { number: 2, until: 3 });
    // It arrives above, where the best of three is another one, and comes first.
    trials[2].steps.insert(3, 0.25);
    trials[2].state = TrialState::Running;
    assert_eq!(asha.at_step(&trials, 2, 3), Verdict::Pause);
    trials[2].state = TrialState::Paused;
    assert_eq!(asha.next(&trials, Some(9)), Next::Resume { number: 1, until: 9 });
    // Were it better than the others, it would continue without a pause.
    trials[2].steps.insert(3, 0.1);
    assert_eq!(asha.at_step(&trials, 2, 3), Verdict::Continue { until: 9 });
    assert_eq!(asha.at_step(&trials, 2, 9), Verdict::Continue { until: 9 });
}

#[test]
fn paused_trials_are_over_once_too_few_can_arrive() {
    let asha = Asha::new(Rungs::new(1, 3, 9).unwrap(), Direction::Minimize);
    let paused = (0..4).map(|number| trial(number, TrialState::Paused, &[(1, number as f64)]));
    // In a study whose first trial was complete before there were rungs to stand at.
    let complete = trial(4, TrialState::Complete, &[(9, 9.0)]);
    let trials: Vec<_> = paused.clone().chain([complete]).collect();
    let promotable = |trials: &[Trial], left| asha.promotable(trials, left).into_iter().collect::<Vec<_>>();
    assert_eq!(promotable(&trials, 0), [0]);
    assert_eq!(promotable(&trials, 1), [0, 1]);
    assert_eq!(promotable(&trials, 8), [0, 1, 2, 3]);
    let paused: Vec<_> = paused.collect();
    assert_eq!(promotable(&paused, 1), [0, 1, 2, 3], "each may be the one that the study ends with");
}

#[test]
fn a_study_of_few_trials_trains_the_best_to_its_end() {
    let rungs = Rungs::new(1, 3, 9).unwrap();
    let asha = Asha::new(rungs.clone(), Direction::Maximize);
    let mut trials = vec![
        trial(0, TrialState::Paused, &[(1, 0.5)]),
        trial(1, TrialState::Paused, &[(1, 0.7)]),
        trial(2, TrialState::Failed, &[(1, 0.9)]),
        trial(3, TrialState::Paused, &[(1, f64::NAN)]),
    ];
    trials[2].steps.clear();
    assert_eq!(
        asha.next(&trials, Some(4)),
        Next::Resume { number: 1, until: 3 },
        "the best of three arrivals"
    );
    trials.remove(3);
    assert_eq!(asha.next(&trials, Some(3)), Next::Begin { until: 1 });
    // The study may begin no more, and no trial is complete.
    assert_eq!(asha.next(&trials, None), Next::Resume { number: 1, until: 3 });
    trials[1].steps.insert(3, 0.2);
    assert_eq!(asha.next(&trials, None), Next::Resume { number: 1, until: 9 }, "the one that came furthest");
    trials[1].state = TrialState::Running;
    assert_eq!(asha.next(&trials, None), Next::Wait);
    trials[1].state = TrialState::Complete;
    assert_eq!(asha.next(&trials, None), Next::Finished);
    trials[1].state = TrialState::Failed;
    assert_eq!(asha.next(&trials, None), Next::Resume { number: 0, until: 3 });
    trials[0].steps.insert(1, f64::NAN);
    assert_eq!(asha.next(&trials, None), Next::Finished, "a value that is not finite leads nowhere");
    // In Hyperband, over all brackets.
    let hyperband = Hyperband::new(&rungs, Direction::Minimize);
    let trials: Vec<_> = (0..2).map(|it| trial(it, TrialState::Paused, &[(3, it as f64)])).collect();
    assert_eq!(hyperband.next(&trials, None), Next::Resume { number: 0, until: 9 });
}

#[test]
fn a_trial_that_stood_at_a_rung_before_is_not_asked_again_between_rungs() {
    let asha = Asha::new(Rungs::new(2, 2, 8).unwrap(), Direction::Maximize);
    let trials = [trial(0, TrialState::Running, &[(1, 0.5), (2, 0.5), (3, 0.5)])];
    assert_eq!(asha.at_step(&trials, 0, 1), Verdict::Continue { until: 2 });
    assert_eq!(asha.at_step(&trials, 0, 2), Verdict::Pause);
    assert_eq!(asha.at_step(&trials, 0, 3), Verdict::Continue { until: 4 });
    let nan = [trial(0, TrialState::Running, &[(2, f64::NAN)])];
    assert_eq!(asha.at_step(&nan, 0, 2), Verdict::Stop);
}

#[test]
fn rungs_lead_to_the_whole_length() {
    assert_eq!(Rungs::new(1, 3, 27).unwrap().levels(), [1, 3, 9, 27]);
    assert_eq!(Rungs::new(2, 3, 20).unwrap().levels(), [2, 6, 18, 20]);
    assert_eq!(Rungs::new(5, 4, 5).unwrap().levels(), [5]);
    let refused = Rungs::new(0, 3, 9).unwrap_err().to_string();
    assert_eq!(
        refused,
        "rungs from 0 to 9 by factors of 3; expected a first rung of 1 to 9, and a factor of at least 2"
    );
}
