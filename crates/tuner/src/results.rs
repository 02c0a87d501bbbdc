//! What a study found: its best trial, and its decisions made again.

use oomph_config::{
    Config, Value,
    sections::space::{Domain, SpaceEntry},
};
use oomph_search::{Draw, Next, TrialState};
use oomph_study::{DecisionKind, Outcome, Question, Report, StoredTrial, StudyState, replay};

use crate::{
    TuneError,
    bench::{Bench, Fit},
    length::Unit,
    notes::TrialNotes,
    policy::{Policy, tune_of},
    setup::Folder,
    space::{domain, journal_value, settings, space, with_settings},
    tuner::checked_space,
};

/// The best trial of a study, as a configuration to train with: that of the study with the trial's parameters,
/// and with the settings that made them fit.
///
/// A training by itself has other threads than a trial beside others, and may need more memory. Where it does not fit as the
/// trial did, settings that keep the mathematics are added.
///
/// # Errors
/// No trial is complete, or the configuration of the study has changed.
pub fn best(
    bench: &impl Bench,
    config: &Config,
    state: &StudyState,
) -> Result<(StoredTrial, Config), TuneError> {
    let best = state.best().ok_or_else(|| no_best(state))?;
    let entries = config.space()?;
    let mut all = settings(&entries, &best.point);
    all.extend(TrialNotes::of(best).settings());
    let as_trained = with_settings(config, &all, [])?;
    let config = match bench.plan(&as_trained, true) {
        Ok(Fit::Adapted { settings, .. }) => {
            all.extend(settings);
            with_settings(config, &all, [])?
        }
        // Where it cannot be planned, or is too large for this machine, it is for another one.
        Ok(Fit::Fits { .. } | Fit::TooLarge { .. }) | Err(_) => as_trained,
    };
    Ok((best.clone(), config))
}

fn no_best(state: &StudyState) -> TuneError {
    let is_open = |trial: &StoredTrial| {
        matches!(trial.stage(), TrialState::Running | TrialState::Waiting | TrialState::Paused)
    };
    let is_over = !state.trials().is_empty() && !state.trials().iter().any(is_open);
    TuneError::NoBest { study: state.name().to_owned(), is_over }
}

/// Makes every decision of a study again, and compares.
///
/// # Errors
/// The journal or the configuration cannot be read, or there is no study.
pub fn replay_study<B: Bench>(bench: &B, config: &Config, folder: &Folder) -> Result<Report, TuneError> {
    let tune = tune_of(config)?;
    let entries = checked_space(bench, config)?;
    let policy = Policy::new(config, tune, space(&entries)?)?;
    Ok(replay(&folder.journal(), None, |question| remade(&policy, question))?)
}

fn remade(policy: &Policy, question: &Question<'_>) -> Outcome {
    let Question { number, decision, trials, state, .. } = question;
    match decision.kind {
        DecisionKind::Begin => {
            let draw = Draw { seed: policy.seed, number: *number, round: decision.rounds };
            let points = policy.candidates(trials, &policy.fixed(&question.fixed), draw);
            Outcome::Begin(points.get(decision.rank as usize).cloned().unwrap_or_default())
        }
        DecisionKind::Promote | DecisionKind::Finish => {
            let new = (decision.kind == DecisionKind::Promote).then_some(state.trials().len());
            match policy.next(trials, new) {
                Next::Resume { number, .. } => Outcome::Promote(number),
                Next::Begin { .. } | Next::Wait | Next::Finished => Outcome::Continue,
            }
        }
        DecisionKind::Pause => Outcome::Pause,
        DecisionKind::Prune => {
            let own = state.trials().get(*number).map(StoredTrial::trial);
            let at = own.as_ref().and_then(|own| own.steps.last_key_value()).map_or(0, |(at, _)| *at);
            if policy.stops(state, *number, decision.seen, at) { Outcome::Prune } else { Outcome::Continue }
        }
    }
}

/// What trials are counted in, and the lengths at which they are compared, the whole one last.
///
/// # Errors
/// The configuration has no study, or its lengths contradict each other.
pub fn levels(config: &Config) -> Result<(Unit, Vec<u64>), TuneError> {
    let tune = tune_of(config)?;
    let policy = Policy::new(config, tune, space(&config.space()?)?)?;
    Ok((policy.whole.unit, policy.all_levels()))
}

/// A point for `--enqueue`, from `key=value,key=value`. Keys of the space that are missing are sampled.
///
/// # Errors
/// A text that is no such list, a key that is not searched, a value outside of its domain, or one whose condition does not hold.
pub fn point_of(
    entries: &[SpaceEntry],
    text: &str,
) -> Result<serde_json::Map<String, serde_json::Value>, TuneError> {
    let refused = |expected: String| TuneError::Point { text: oomph_core::printable(text), expected };
    let mut point = serde_json::Map::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (key, value) =
            part.split_once('=').ok_or_else(|| refused("`key=value`, with commas between".into()))?;
        let (key, value) = (key.trim(), Value::of_text(value.trim()));
        let keys = || entries.iter().map(|entry| format!("`{}`", entry.key)).collect::<Vec<_>>().join(", ");
        let entry = entries
            .iter()
            .find(|entry| entry.key == key)
            .ok_or_else(|| refused(format!("one of the searched keys {}", keys())))?;
        if entry.searched(&value).is_none() {
            return Err(refused(format!("for `{key}`, {}", domain(&entry.domain))));
        }
        point.insert(key.to_owned(), journal_value(&value));
    }
    if point.is_empty() {
        return Err(refused("at least one `key=value`".into()));
    }
    let unmet = entries.iter().filter(|entry| point.contains_key(&entry.key)).find_map(|entry| {
        let when = entry.when.as_ref()?;
        let other = entries.iter().find(|other| other.key == when.key)?;
        let Domain::Choice(choices) = &other.domain else { return None };
        let choices = when.choices.iter().filter_map(|index| choices.get(*index));
        let allowed: Vec<_> = choices.map(journal_value).collect();
        let is_met = point.get(&when.key).is_some_and(|given| allowed.contains(given));
        let allowed: Vec<_> = allowed.iter().map(|it| format!("`{}={}`", when.key, shown(it))).collect();
        (!is_met).then(|| format!("{} beside `{}`", allowed.join(" or "), entry.key))
    });
    unmet.map_or(Ok(point), |expected| Err(refused(expected)))
}

fn shown(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
