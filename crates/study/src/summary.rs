use std::collections::{BTreeMap, BTreeSet};

use oomph_search::{Direction, TrialState as Stage};
use serde::Serialize;
use serde_json::Value;

use crate::{
    journal::Owner,
    state::{StoredTrial, StudyState},
    study::stage_name,
};

/// A study in short, for pages, tables and programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The name of the study.
    pub name: String,
    /// `minimize` or `maximize`.
    pub direction: &'static str,
    /// The name of the value; `None` for a study of another program that names none.
    pub metric: Option<String>,
    /// How many trials are `waiting`, `running`, `paused`, `complete`, `pruned`, `failed` and `infeasible`.
    pub counts: BTreeMap<&'static str, usize>,
    /// The best trial.
    pub best: Option<Best>,
    /// The best value after each complete trial, in the order in which they ended.
    pub progress: Vec<Progress>,
    /// The steps after which trials were compared, from the lowest.
    pub rung_counts: Vec<RungCount>,
}

/// The best trial of a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Best {
    /// Its number.
    pub number: usize,
    /// Its value.
    pub value: f64,
    /// Its parameters, in configuration terms.
    pub parameters: BTreeMap<String, Value>,
}

/// A complete trial, and the best value until then.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Progress {
    /// The number of the trial.
    pub number: usize,
    /// Its value.
    pub value: f64,
    /// The best value of this trial and those that ended before.
    pub best: f64,
}

/// The trials at a rung.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RungCount {
    /// After how many steps.
    pub step: u64,
    /// Trials that reported a value there.
    pub reached: usize,
    /// Trials that stand there, paused.
    pub paused: usize,
    /// Trials that ended there as pruned.
    pub pruned: usize,
    /// Trials that went further: they reported a later value, or are complete.
    pub passed: usize,
}

impl Summary {
    /// The summary of a study, with the counts at `rung_steps`. Without any: at the steps where trials pause or were pruned.
    pub fn of(state: &StudyState, rung_steps: &[u64]) -> Self {
        let trials = state.trials();
        let mut counts: BTreeMap<_, _> = STATES.iter().map(|state| (stage_name(*state), 0)).collect();
        for trial in trials {
            *counts.entry(stage_name(trial.stage())).or_default() += 1;
        }
        let metric =
            state.attribute(Owner::System, "study:metric_names").and_then(|names| names.get(0)?.as_str());
        Self {
            name: state.name().to_owned(),
            direction: match state.direction() {
                Direction::Minimize => "minimize",
                Direction::Maximize => "maximize",
            },
            metric: metric.map(str::to_owned),
            counts,
            best: state.best().map(best),
            progress: progress(state),
            rung_counts: steps(trials, rung_steps).into_iter().map(|step| rung_count(trials, step)).collect(),
        }
    }
}

const STATES: [Stage; 7] = [
    Stage::Waiting,
    Stage::Running,
    Stage::Paused,
    Stage::Complete,
    Stage::Pruned,
    Stage::Failed,
    Stage::Infeasible,
];

fn best(trial: &StoredTrial) -> Best {
    Best { number: trial.number, value: trial.value().unwrap_or(f64::NAN), parameters: trial.parameters() }
}

fn progress(state: &StudyState) -> Vec<Progress> {
    let mut complete: Vec<_> =
        state.trials().iter().filter(|trial| trial.stage() == Stage::Complete).collect();
    complete.sort_by_key(|trial| (trial.ended_at, trial.number));
    let mut best: Option<f64> = None;
    let step = |trial: &StoredTrial| {
        let value = trial.value()?;
        let better = best.map_or(value, |best| match state.direction() {
            Direction::Minimize => best.min(value),
            Direction::Maximize => best.max(value),
        });
        best = Some(better);
        Some(Progress { number: trial.number, value, best: better })
    };
    complete.into_iter().filter_map(step).collect()
}

fn last_step(trial: &StoredTrial) -> Option<u64> {
    trial.intermediate.keys().last().and_then(|step| u64::try_from(*step).ok())
}

fn steps(trials: &[StoredTrial], given: &[u64]) -> BTreeSet<u64> {
    if !given.is_empty() {
        return given.iter().copied().collect();
    }
    let stopped = |trial: &StoredTrial| match trial.stage() {
        Stage::Paused => trial.paused_at(),
        Stage::Pruned => last_step(trial),
        _ => None,
    };
    trials.iter().filter_map(stopped).collect()
}

fn rung_count(trials: &[StoredTrial], step: u64) -> RungCount {
    let count = |is: &dyn Fn(&StoredTrial) -> bool| trials.iter().filter(|trial| is(trial)).count();
    let reported =
        |trial: &StoredTrial| i64::try_from(step).is_ok_and(|step| trial.intermediate.contains_key(&step));
    RungCount {
        step,
        reached: count(&reported),
        paused: count(&|trial| trial.paused_at() == Some(step)),
        pruned: count(&|trial| trial.stage() == Stage::Pruned && last_step(trial) == Some(step)),
        passed: count(&|trial| {
            reported(trial) && (last_step(trial) > Some(step) || trial.stage() == Stage::Complete)
        }),
    }
}
