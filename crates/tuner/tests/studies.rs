//! Whole studies of a program whose trainings are a formula, in processes of their own.

mod support;

use oomph_core::Bytes;
use oomph_search::TrialState;
use oomph_study::JobOutcome;
use oomph_tuner::{TuneEnded, TuneStop};

use crate::support::{Bed, StopAfter, be_a_trial, results};

#[test]
fn a_trial_of_another_test() {
    be_a_trial();
}

fn count(bed: &Bed, state: TrialState) -> usize {
    bed.state().trials().iter().filter(|trial| trial.stage() == state).count()
}

#[test]
fn trials_pause_at_rungs_and_the_best_continue() {
    let bed = Bed::new("trials = 27\nmin_epochs = 1\neta = 3\nseed = 4");
    let state = bed.finish(3);
    assert_eq!(state.trials().len(), 27);
    // All 27 stood at 1 epoch, at least a third of them went on to 3, and at least a ninth to the end.
    let reached = |epochs: u64| {
        let at_least =
            |trial: &&oomph_study::StoredTrial| trial.trial().steps.range(epochs..).next().is_some();
        state.trials().iter().filter(at_least).count()
    };
    assert_eq!(reached(1), 27);
    assert!((9..=18).contains(&reached(3)) && (3..=9).contains(&reached(9)), "{} {}", reached(3), reached(9));
    assert_eq!(count(&bed, TrialState::Complete), reached(9));
    assert_eq!(count(&bed, TrialState::Pruned), 27 - reached(9));
    // One job for each rung that was worked for.
    let paused =
        state.jobs().all().iter().filter(|job| matches!(job.outcome, Some(JobOutcome::Paused(_)))).count();
    assert_eq!(
        (state.jobs().count(), paused),
        (reached(1) + reached(3) + reached(9), reached(1) + reached(3))
    );
    let best = state.best().expect("a best trial");
    assert!(best.value().expect("its value") < 0.6, "{best:?}");
    // Each beginning and each promotion is a decision.
    assert_eq!(bed.replay(), state.jobs().count());
}

#[test]
fn a_study_of_few_trials_ends_with_a_complete_one() {
    let bed = Bed::new("trials = 4\neta = 3\nseed = 2");
    let state = bed.finish(2);
    assert_eq!((count(&bed, TrialState::Complete), count(&bed, TrialState::Pruned)), (1, 3));
    assert_eq!(state.trials().iter().filter(|trial| trial.trial().steps.contains_key(&9)).count(), 1);
    assert_eq!(bed.replay(), state.jobs().count());
}

#[test]
fn the_best_trial_fits_by_itself_too() {
    let bed = Bed::new("trials = 4\nscheduler = 'none'\nseed = 2");
    let state = bed.finish(2);
    let recompute = |memory: &str| {
        let bed = Bed::with(memory, "trials = 4\nscheduler = 'none'\nseed = 2");
        let (trial, config) =
            oomph_tuner::best(&support::Formula, &bed.config, &state).expect("a best trial");
        assert_eq!(Some(trial.number), state.best().map(|best| best.number));
        config.memory.recompute
    };
    let width = state.best().expect("a best trial").point["model.width"];
    assert_eq!(recompute(&format!("[memory]\nlimit = '{width}MiB'")), oomph_config::Recompute::None);
    assert_eq!(
        recompute(&format!("[memory]\nlimit = '{}MiB'", width - 1.0)),
        oomph_config::Recompute::Stages
    );
    // Nothing makes it fit here: it is for another machine.
    assert_eq!(recompute("[memory]\nlimit = '1MiB'"), oomph_config::Recompute::None);
}

#[test]
fn only_the_best_trial_keeps_its_checkpoint() {
    let bed = Bed::new("trials = 9\nseed = 1");
    let state = bed.finish(2);
    let best = state.best().expect("a best trial").number;
    for trial in state.trials() {
        let kept = bed.folder().join(format!("trials/{:05}/checkpoints", trial.number)).is_dir();
        assert_eq!(kept, trial.number == best, "trial {}", trial.number);
    }
    let all = Bed::new("trials = 9\nseed = 1\ncheckpoints = 'all'");
    let state = all.finish(2);
    for trial in state.trials() {
        assert!(all.folder().join(format!("trials/{:05}/checkpoints", trial.number)).is_dir());
    }
}

#[test]
fn a_study_that_repeats_does_not_depend_on_time_stops_and_workers() {
    let tune = "trials = 20\nparallel = 3\ndeterministic = true\nseed = 9";
    let whole = Bed::new(tune);
    let expected = results(&whole.finish(3));
    whole.replay();
    // One slot of three: jobs end in another order.
    let alone = Bed::new(tune);
    assert_eq!(results(&alone.finish(1)), expected);
    alone.replay();
    // Stopped again and again, in the middle of trials.
    let stopped = Bed::new(tune);
    let mut rounds = 0;
    loop {
        let stop = TuneStop::new();
        let mut observer = StopAfter { stop: stop.clone(), left: 3 + rounds % 5 };
        rounds += 1;
        match stopped.observed(3, &stop, &mut observer).expect("a study") {
            TuneEnded::Stopped => {}
            TuneEnded::Complete => break,
        }
    }
    assert!(rounds > 4, "{rounds}");
    assert_eq!(results(&stopped.state()), expected);
    stopped.replay();
}

#[test]
fn two_workers_share_a_study() {
    let bed = Bed::new("trials = 18\nseed = 2");
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(|| bed.run(2, &TuneStop::new()))).collect();
        for worker in workers {
            assert_eq!(worker.join().expect("no panic").expect("a study"), TuneEnded::Complete);
        }
    });
    assert_eq!(bed.state().trials().len(), 18);
    assert_eq!(count(&bed, TrialState::Running) + count(&bed, TrialState::Paused), 0);
    bed.replay();
}

#[test]
fn what_is_too_large_is_adapted_avoided_or_refused() {
    let tune = |how: &str| {
        format!("trials = 30\nscheduler = 'none'\nsampler = 'random'\nseed = 3\non_too_large = '{how}'")
    };
    let bed = |how: &str| Bed { limit_bytes: Some(Bytes::mib(60)), ..Bed::new(&tune(how)) };
    let adapted = bed("adapt");
    let state = adapted.finish(4);
    assert_eq!(count(&adapted, TrialState::Complete), 30);
    let is_adapted = |trial: &&oomph_study::StoredTrial| trial.user_attributes.contains_key("oomph:adapted");
    assert!((5..25).contains(&state.trials().iter().filter(is_adapted).count()));

    let avoided = bed("avoid");
    let state = avoided.finish(4);
    let infeasible = count(&avoided, TrialState::Infeasible);
    assert_eq!(count(&avoided, TrialState::Complete) + infeasible, 30);
    assert!(
        state
            .trials()
            .iter()
            .filter(|trial| trial.stage() == TrialState::Complete)
            .all(|trial| trial.point["model.width"] <= 60.0)
    );
    avoided.replay();

    let refused = bed("refuse");
    refused.finish(4);
    let (complete, infeasible) =
        (count(&refused, TrialState::Complete), count(&refused, TrialState::Infeasible));
    assert_eq!(complete + infeasible, 30);
    assert!((5..25).contains(&infeasible), "{infeasible}");
}

#[test]
fn a_failure_is_the_trial_s_and_says_why() {
    for (fails, reason) in [("panics", "exited with code 101"), ("nan", "the loss of step 11 is NaN")] {
        let bed = Bed::with(&format!("[model]\nfails = '{fails}'"), "trials = 4\nscheduler = 'none'");
        let state = bed.finish(2);
        assert_eq!(count(&bed, TrialState::Failed), 4);
        for trial in state.trials() {
            assert!(trial.reason().expect("a reason").contains(reason), "{:?}", trial.reason());
        }
    }
}

#[test]
fn a_training_that_runs_out_of_memory_is_adapted_once() {
    let bed = Bed::with("[model]\nfails = 'memory'", "trials = 3\nscheduler = 'none'");
    let state = bed.finish(2);
    assert_eq!(count(&bed, TrialState::Complete), 3);
    for trial in state.trials() {
        assert_eq!(
            trial.user_attributes["oomph:adapted"],
            serde_json::json!({ "memory.recompute": "stages" })
        );
    }
}

#[test]
fn an_enqueued_trial_is_run_first_with_its_values() {
    let bed = Bed::new("trials = 6\nscheduler = 'none'");
    assert_eq!(bed.enqueue("optimizer.lr=0.01, model.width=64"), [0]);
    assert_eq!(bed.enqueue("model.width=32"), [1]);
    let state = bed.finish(2);
    assert_eq!(state.trials().len(), 6);
    assert_eq!(
        (state.trials()[0].point["optimizer.lr"], state.trials()[0].point["model.width"]),
        (0.01, 64.0)
    );
    assert_eq!(state.trials()[1].point["model.width"], 32.0);
    bed.replay();
}

#[test]
fn the_median_rule_prunes_and_repeats() {
    let bed = Bed::new("trials = 30\nscheduler = 'median'\nseed = 5\nsampler = 'random'");
    bed.finish(2);
    assert!(count(&bed, TrialState::Pruned) > 3, "{}", count(&bed, TrialState::Pruned));
    assert_eq!(count(&bed, TrialState::Pruned) + count(&bed, TrialState::Complete), 30);
    assert_eq!(bed.replay(), 30 + count(&bed, TrialState::Pruned));
}

#[test]
fn another_configuration_is_another_study() {
    let bed = Bed::new("trials = 2\nscheduler = 'none'");
    bed.finish(1);
    let other = oomph_config::Config::from_toml(
        "formula.toml",
        "[train]\nepochs = 8\n[tune]\ntrials = 2\nscheduler = 'none'\n[tune.space]\n\
         \"optimizer.lr\" = { low = 1e-4, high = 1.0, log = true }\n\"model.width\" = { low = 10, high = 100 }\n",
    );
    let bed = Bed { config: other.expect("a config"), ..bed };
    let error = bed.run(1, &TuneStop::new()).expect_err("another length").to_string();
    assert!(error.contains("train.epochs") && error.contains('9') && error.contains('8'), "{error}");
}
