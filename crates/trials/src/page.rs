//! A study as the data of its page.

use oomph_config::{
    Config,
    sections::space::{Domain, SpaceEntry},
};
use oomph_search::{Direction, TrialState};
use oomph_study::{StoredTrial, read};
use oomph_tune_page::{
    Goal, PageParameter, PageTrial, ParameterKind, ParameterValue, StudyPage, TrialStatus,
};
use oomph_tuner::{Folder, TrialNotes, TuneError, Unit, journal_value, levels};

/// A study as the data of its page; `made` is the date that it shows.
///
/// # Errors
/// The journal or the configuration cannot be read.
pub fn page(config: &Config, folder: &Folder, made: String) -> Result<StudyPage, TuneError> {
    let state = read(&folder.journal(), None)?;
    let (unit, levels) = levels(config)?;
    Ok(StudyPage {
        name: state.name().to_owned(),
        metric: config.tune.as_ref().map_or_else(String::new, |tune| tune.metric.name().to_owned()),
        goal: if state.direction() == Direction::Maximize { Goal::Maximize } else { Goal::Minimize },
        unit: if unit == Unit::Epochs { "epochs".into() } else { "steps".into() },
        levels,
        parameters: config.space()?.iter().map(parameter).collect(),
        trials: state.trials().iter().map(trial).collect(),
        limit_bytes: config.memory.limit,
        made,
    })
}

fn parameter(entry: &SpaceEntry) -> PageParameter {
    let kind = match &entry.domain {
        &Domain::Float { low, high, log, .. } => ParameterKind::Float { low, high, log },
        &Domain::Integer { low, high, log, .. } => ParameterKind::Integer { low, high, log },
        Domain::Choice(choices) => ParameterKind::Choice {
            choices: choices.iter().map(|choice| value(&journal_value(choice))).collect(),
        },
    };
    let when = entry.when.as_ref().map(|when| when.key.clone());
    PageParameter { name: entry.key.clone(), kind, when }
}

fn trial(stored: &StoredTrial) -> PageTrial {
    let notes = TrialNotes::of(stored);
    PageTrial {
        parameters: stored.parameters().iter().map(|(key, it)| (key.clone(), value(it))).collect(),
        value: stored.value(),
        steps: stored.trial().steps,
        planned_peak_bytes: notes.planned_peak_bytes,
        measured_peak_bytes: notes.measured_peak_bytes,
        adapted: notes.adapted.iter().map(|(key, it)| (key.clone(), value(it))).collect(),
        reason: stored.reason().map(str::to_owned),
        seconds: notes.seconds,
        ..PageTrial::new(stored.number as u64, status(stored.stage()))
    }
}

fn value(json: &serde_json::Value) -> ParameterValue {
    match json {
        serde_json::Value::Bool(boolean) => ParameterValue::Boolean(*boolean),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(integer) => ParameterValue::Integer(integer),
            None => ParameterValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => ParameterValue::Text(text.clone()),
        other => ParameterValue::Text(other.to_string()),
    }
}

fn status(state: TrialState) -> TrialStatus {
    match state {
        TrialState::Waiting => TrialStatus::Waiting,
        TrialState::Running => TrialStatus::Running,
        TrialState::Paused => TrialStatus::Paused,
        TrialState::Complete => TrialStatus::Complete,
        TrialState::Pruned => TrialStatus::Pruned,
        TrialState::Failed => TrialStatus::Failed,
        TrialState::Infeasible => TrialStatus::Infeasible,
    }
}
