//! A study of `oomph tune`, as tables and JSON.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write as _, path::Path};

use oomph_config::{Config, sections::tune::Tune};
use oomph_core::{Bytes, printable};
use oomph_search::TrialState;
use oomph_study::{Report, StoredTrial, StudyState};
use oomph_tuner::{Folder, Survey, SurveyResult, TrialNotes};
use serde::Serialize;
use serde_json::Value;

use crate::{
    numbers::{decimal, plural, setting},
    table::{
        Column::{Left, Right},
        Table, pairs,
    },
};

/// How many of the best trials the status shows.
const SHOWN: usize = 10;

/// How far a study is.
#[derive(Serialize)]
pub struct Status {
    study: String,
    folder: String,
    metric: String,
    trials: usize,
    of: usize,
    /// Trials by state.
    states: BTreeMap<&'static str, usize>,
    /// The best trials, the best first.
    best: Vec<Row>,
    /// Trials that have no value, by reason.
    reasons: BTreeMap<String, usize>,
}

/// A trial.
#[derive(Serialize)]
pub struct Row {
    trial: usize,
    state: &'static str,
    value: f64,
    /// Epochs or steps.
    at: Option<u64>,
    parameters: BTreeMap<String, Value>,
    planned_peak_bytes: Option<Bytes>,
    measured_peak_bytes: Option<Bytes>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    adapted: BTreeMap<String, Value>,
}

impl Row {
    fn of(trial: &StoredTrial) -> Option<Self> {
        let seen = trial.trial();
        let last = seen.steps.last_key_value();
        let notes = TrialNotes::of(trial);
        Some(Self {
            trial: trial.number,
            state: word(trial),
            value: trial.value().or(last.map(|(_, value)| *value))?,
            at: last.map(|(at, _)| *at),
            parameters: trial.parameters(),
            planned_peak_bytes: notes.planned_peak_bytes,
            measured_peak_bytes: notes.measured_peak_bytes,
            adapted: notes.adapted,
        })
    }
}

impl Status {
    /// How far the study is; `tune` is its section of the configuration.
    pub fn of(state: &StudyState, tune: Option<&Tune>, folder: &Folder) -> Self {
        let mut states: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for trial in state.trials() {
            *states.entry(word(trial)).or_default() += 1;
            if matches!(trial.stage(), TrialState::Failed | TrialState::Infeasible) {
                let reason = trial.reason().unwrap_or("no reason was told");
                *reasons.entry(printable(reason)).or_default() += 1;
            }
        }
        let mut best: Vec<_> = state.trials().iter().collect();
        // Complete trials first: a value at a rung is of a shorter training.
        let rank = |trial: &StoredTrial| {
            let steps = trial.trial().steps;
            let (at, value) = steps.last_key_value().map_or((0, f64::NAN), |(at, value)| (*at, *value));
            let loss = state.direction().loss(trial.value().unwrap_or(value));
            ((trial.stage() != TrialState::Complete, Reverse(at)), loss)
        };
        best.sort_by(|one, other| {
            let ((one, loss), (other, other_loss)) = (rank(one), rank(other));
            one.cmp(&other).then(loss.total_cmp(&other_loss))
        });
        Self {
            study: state.name().to_owned(),
            folder: folder.path().display().to_string(),
            metric: tune.map_or_else(String::new, |tune| tune.metric.name().to_owned()),
            trials: state.trials().len(),
            of: tune.map_or(0, |tune| tune.trials),
            states,
            best: best.into_iter().filter_map(Row::of).take(SHOWN).collect(),
            reasons,
        }
    }

    /// As a table.
    pub fn text(&self) -> String {
        let states: Vec<_> = self.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let mut text = pairs([
            ("study", Some(printable(&self.study))),
            ("folder", Some(printable(&self.folder))),
            ("metric", Some(self.metric.clone())),
            ("trials", Some(format!("{} of {}: {}", self.trials, self.of, states.join(", ")))),
        ]);
        if !self.best.is_empty() {
            let _ = write!(text, "\n{}", self.table()); // Writing to a string cannot fail.
        }
        for (reason, count) in &self.reasons {
            let _ = write!(text, "\n{}: {reason}", plural(*count, "trial"));
        }
        if !self.reasons.is_empty() {
            text.push('\n');
        }
        text
    }

    fn table(&self) -> Table<7> {
        let mut table = Table::new([
            Right("trial"),
            Right("value"),
            Right("after"),
            Left("state"),
            Right("planned"),
            Right("measured"),
            Left("parameters"),
        ]);
        let missing = || "–".to_owned();
        for row in &self.best {
            table.row([
                row.trial.to_string(),
                decimal(row.value),
                row.at.map_or_else(missing, |at| at.to_string()),
                row.state.to_owned(),
                row.planned_peak_bytes.map_or_else(missing, |bytes| bytes.to_string()),
                row.measured_peak_bytes.map_or_else(missing, |bytes| bytes.to_string()),
                parameters(&row.parameters),
            ]);
        }
        table
    }
}

/// `lr=0.01 name=adamw`: the keys without their sections, as a column of a table has little room.
pub(crate) fn parameters(parameters: &BTreeMap<String, Value>) -> String {
    let shown = |(key, value): (&String, &Value)| {
        let key = key.split_once('.').map_or(key.as_str(), |(_, key)| key);
        format!("{}={}", printable(key), shown(value))
    };
    parameters.iter().map(shown).collect::<Vec<_>>().join(" ")
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text),
        Value::Number(number) if number.is_f64() => setting(number.as_f64().unwrap_or(f64::NAN)),
        other => printable(other.to_string()),
    }
}

fn word(trial: &StoredTrial) -> &'static str {
    match trial.stage() {
        // It runs in the journal, whose process is gone or has given it back.
        TrialState::Running if trial.is_abandoned() => "interrupted",
        TrialState::Waiting => "waiting",
        TrialState::Running => "running",
        TrialState::Paused => "paused",
        TrialState::Complete => "complete",
        TrialState::Pruned => "pruned",
        TrialState::Failed => "failed",
        TrialState::Infeasible => "too large",
    }
}

/// The best trial of a study.
#[derive(Serialize)]
pub struct Best {
    study: String,
    trial: usize,
    value: Option<f64>,
    parameters: BTreeMap<String, Value>,
    /// Settings beside the parameters, which made it fit.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    adapted: BTreeMap<String, Value>,
    written: Option<String>,
}

impl Best {
    /// The trial; `file` is the config that was written for it.
    pub fn of(state: &StudyState, trial: &StoredTrial, file: Option<&Path>) -> Self {
        Self {
            study: state.name().to_owned(),
            trial: trial.number,
            value: trial.value(),
            parameters: trial.parameters(),
            adapted: TrialNotes::of(trial).adapted,
            written: file.map(|file| file.display().to_string()),
        }
    }

    /// As a table.
    pub fn text(&self) -> String {
        let mut text = pairs([
            ("study", Some(printable(&self.study))),
            ("best trial", Some(self.trial.to_string())),
            ("value", self.value.map(decimal)),
            ("written", self.written.as_ref().map(printable)),
        ]);
        for (key, value) in self.parameters.iter().chain(&self.adapted) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _ = writeln!(text, "  --set {}={}", printable(key), printable(value)); // Writing to a string cannot fail.
        }
        text
    }
}

/// The config of the best trial.
pub fn best_config(state: &StudyState, trial: &StoredTrial, config: &Config) -> String {
    format!(
        "# The best of {} of the study `{}`: trial {}, value {}.\n# `oomph train --config FILE` trains it.\n\n{}",
        plural(state.trials().len(), "trial"),
        printable(state.name()),
        trial.number,
        trial.value().map_or_else(String::new, |value| value.to_string()),
        config.to_toml()
    )
}

/// Decisions that were made again.
#[derive(Serialize)]
pub struct Replayed {
    checked: usize,
    differences: Vec<String>,
}

/// Decisions that were made again.
pub fn replayed(report: &Report) -> Replayed {
    let difference = |it: &oomph_study::Difference| {
        let remade = it.remade.as_ref().map_or_else(
            || "it claims to have seen what did not exist yet".to_owned(),
            |remade| format!("it comes to {remade:?} now"),
        );
        format!("line {}: trial {}: {:?} in the study; {remade}", it.line, it.number, it.recorded)
    };
    Replayed { checked: report.checked, differences: report.differences.iter().map(difference).collect() }
}

impl Replayed {
    /// As a table.
    pub fn text(&self) -> String {
        let mut text =
            format!("{} made again, {} differ\n", plural(self.checked, "decision"), self.differences.len());
        for difference in &self.differences {
            let _ = writeln!(text, "  {}", printable(difference)); // Writing to a string cannot fail.
        }
        text
    }
}

/// The text of `--plan`.
pub fn surveyed(survey: &Survey) -> String {
    let count =
        |wanted: fn(&SurveyResult) -> bool| survey.points.iter().filter(|it| wanted(&it.result)).count();
    let of = survey.points.len();
    let share = |number: usize| format!("{number} of {of}");
    let fits = count(|it| matches!(it, SurveyResult::Fits { .. }));
    let adapted = count(|it| matches!(it, SurveyResult::Adapted { .. }));
    let too_large = count(|it| matches!(it, SurveyResult::TooLarge { .. }));
    let refused = count(|it| matches!(it, SurveyResult::Refused { .. }));
    let nonzero = |number: usize| (number > 0).then(|| share(number));
    let points = if survey.is_whole { "all of the space" } else { "a sample of the space" };
    let mut text = pairs([
        ("planned", Some(format!("{}, {points}", plural(of, "point")))),
        ("limit", survey.limit_bytes.map(|limit| limit.to_string())),
        ("fit", Some(share(fits))),
        ("fit with adapted settings", nonzero(adapted)),
        ("too large", nonzero(too_large)),
        ("refused", nonzero(refused)),
    ]);
    let _ = write!(text, "\n{}", table(survey)); // Writing to a string cannot fail.
    text
}

/// The points with the largest peaks, and those that are refused.
fn table(survey: &Survey) -> Table<3> {
    let peak = |result: &SurveyResult| match result {
        SurveyResult::Fits { planned_peak_bytes }
        | SurveyResult::Adapted { planned_peak_bytes, .. }
        | SurveyResult::TooLarge { planned_peak_bytes } => Some(*planned_peak_bytes),
        SurveyResult::Refused { .. } => None,
    };
    let mut points: Vec<_> = survey.points.iter().collect();
    points.sort_by_key(|point| Reverse(peak(&point.result).map_or(u64::MAX, Bytes::get)));
    let mut table = Table::new([Right("planned peak"), Left("result"), Left("parameters")]);
    for point in points.into_iter().take(SHOWN) {
        let result = match &point.result {
            SurveyResult::Fits { .. } => "fits".to_owned(),
            SurveyResult::Adapted { settings, .. } => format!("fits with {}", settings.join(" ")),
            SurveyResult::TooLarge { .. } => "too large".to_owned(),
            SurveyResult::Refused { reason } => format!("refused: {reason}"),
        };
        let peak = peak(&point.result).map_or_else(|| "–".to_owned(), |bytes| bytes.to_string());
        table.row([peak, printable(result), parameters(&point.parameters)]);
    }
    table
}
