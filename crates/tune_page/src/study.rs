use std::collections::BTreeMap;

use oomph_core::Bytes;
use serde::{Deserialize, Serialize};

/// The content of a study's page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyPage {
    /// The name of the study.
    pub name: String,
    /// The name of the value that is compared: `eval loss`.
    pub metric: String,
    /// Whether small or large values are good.
    pub goal: Goal,
    /// The unit of steps, in the plural: `epochs` or `steps`.
    pub unit: String,
    /// The lengths at which the scheduler compares trials, rising. The last one is the full length. May be empty.
    pub levels: Vec<u64>,
    /// The parameters of the space.
    pub parameters: Vec<PageParameter>,
    /// The trials, by number.
    pub trials: Vec<PageTrial>,
    /// The memory that a trial may use.
    pub limit_bytes: Option<Bytes>,
    /// When the page was made, as text.
    pub made: String,
}

impl StudyPage {
    /// The index in [`Self::trials`] of the complete trial with the best finite value; of equal ones the first.
    pub fn best(&self) -> Option<usize> {
        let complete =
            self.trials.iter().enumerate().filter(|(_, trial)| trial.status == TrialStatus::Complete);
        let values = complete
            .filter_map(|(index, trial)| Some((index, trial.value.filter(|value| value.is_finite())?)));
        values.min_by(|a, b| self.goal.loss(a.1).total_cmp(&self.goal.loss(b.1))).map(|(index, _)| index)
    }

    /// How many trials have a status.
    pub fn count(&self, status: TrialStatus) -> usize {
        self.trials.iter().filter(|trial| trial.status == status).count()
    }
}

/// Whether small or large values are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Small values, as of a loss.
    Minimize,
    /// Large values, as of an accuracy.
    Maximize,
}

impl Goal {
    /// `value` with the sign that makes small ones good.
    pub(crate) fn loss(self, value: f64) -> f64 {
        match self {
            Self::Minimize => value,
            Self::Maximize => -value,
        }
    }
}

/// A parameter of the space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageParameter {
    /// Its key of the configuration: `optimizer.lr`.
    pub name: String,
    /// Its values.
    pub kind: ParameterKind,
    /// The condition under which a trial has it: `optimizer.name = sgd`. `None`: each trial has it.
    pub when: Option<String>,
}

/// The values of a parameter. Both bounds are values too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ParameterKind {
    /// Numbers.
    Float {
        /// The smallest.
        low: f64,
        /// The largest.
        high: f64,
        /// Whether its axis is logarithmic. Needs positive bounds.
        log: bool,
    },
    /// Integers.
    Integer {
        /// The smallest.
        low: i64,
        /// The largest.
        high: i64,
        /// Whether its axis is logarithmic. Needs positive bounds.
        log: bool,
    },
    /// A choice of some, in the order of its axis.
    Choice {
        /// The choices.
        choices: Vec<ParameterValue>,
    },
}

impl ParameterKind {
    /// The smallest and the largest value as numbers: of a choice, the first and the last index.
    pub(crate) fn bounds(&self) -> [f64; 2] {
        match self {
            Self::Float { low, high, .. } => [*low, *high],
            Self::Integer { low, high, .. } => [*low as f64, *high as f64],
            Self::Choice { choices } => [0.0, choices.len().saturating_sub(1) as f64],
        }
    }

    /// Whether the axis is logarithmic.
    pub(crate) fn is_log(&self) -> bool {
        let wants = matches!(self, Self::Float { log: true, .. } | Self::Integer { log: true, .. });
        wants && self.bounds()[0] > 0.0
    }

    /// A value as a number on the axis: of a choice, its index. `None` for a value of another kind, or none at all.
    pub(crate) fn number(&self, value: Option<&ParameterValue>) -> Option<f64> {
        let number = match (self, value?) {
            (Self::Choice { choices }, value) => choices.iter().position(|choice| choice == value)? as f64,
            (_, ParameterValue::Integer(value)) => *value as f64,
            (_, ParameterValue::Number(value)) => *value,
            (_, ParameterValue::Boolean(_) | ParameterValue::Text(_)) => return None,
        };
        number.is_finite().then_some(number)
    }
}

/// A value of a parameter or of another key, in terms of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParameterValue {
    /// `true` or `false`.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A word.
    Text(String),
}

impl From<bool> for ParameterValue {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i64> for ParameterValue {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for ParameterValue {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for ParameterValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// A trial of the study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageTrial {
    /// Its number in the study.
    pub number: u64,
    /// How far it is.
    pub status: TrialStatus,
    /// Its values of the parameters. A parameter whose condition does not hold is absent.
    pub parameters: BTreeMap<String, ParameterValue>,
    /// Its final value, once it is complete.
    pub value: Option<f64>,
    /// Its value after some steps, by step.
    pub steps: BTreeMap<u64, f64>,
    /// The planned peak.
    pub planned_peak_bytes: Option<Bytes>,
    /// The peak in use.
    pub measured_peak_bytes: Option<Bytes>,
    /// Keys that were changed to make it fit into memory.
    pub adapted: BTreeMap<String, ParameterValue>,
    /// Why it was pruned, failed or is infeasible.
    pub reason: Option<String>,
    /// How long it trained.
    pub seconds: Option<f64>,
}

impl PageTrial {
    /// A trial that has a status and nothing else.
    pub fn new(number: u64, status: TrialStatus) -> Self {
        Self {
            number,
            status,
            parameters: BTreeMap::new(),
            value: None,
            steps: BTreeMap::new(),
            planned_peak_bytes: None,
            measured_peak_bytes: None,
            adapted: BTreeMap::new(),
            reason: None,
            seconds: None,
        }
    }

    /// The last step with a value.
    pub(crate) fn last_step(&self) -> Option<u64> {
        self.steps.last_key_value().map(|(step, _)| *step)
    }

    /// Whether it was trained for `level` steps. A complete trial without values by step has reached every level.
    pub(crate) fn has_reached(&self, level: u64) -> bool {
        match self.last_step() {
            Some(last) => last >= level,
            None => self.status == TrialStatus::Complete,
        }
    }

    /// The value after `level` steps: the last one until then. `None` if the trial did not come so far.
    pub(crate) fn value_at(&self, level: u64) -> Option<f64> {
        let last = self.steps.range(..=level).next_back().map(|(_, value)| *value);
        last.filter(|value| value.is_finite() && self.has_reached(level))
    }
}

/// How far a trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialStatus {
    /// Made in advance, and not begun.
    Waiting,
    /// A worker trains it.
    Running,
    /// It stands at a length at which trials are compared, and may continue.
    Paused,
    /// It was trained to its end.
    Complete,
    /// It was given up before its end.
    Pruned,
    /// It crashed, was refused, or its value is not a number.
    Failed,
    /// It does not fit into memory, and was not begun.
    Infeasible,
}

impl TrialStatus {
    /// Each status, in the order of the page.
    pub const ALL: [Self; 7] = [
        Self::Complete,
        Self::Running,
        Self::Paused,
        Self::Waiting,
        Self::Pruned,
        Self::Failed,
        Self::Infeasible,
    ];

    /// Its word: `complete`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Complete => "complete",
            Self::Pruned => "pruned",
            Self::Failed => "failed",
            Self::Infeasible => "infeasible",
        }
    }

    /// Its position in [`Self::ALL`].
    pub(crate) fn index(self) -> usize {
        Self::ALL.iter().position(|status| *status == self).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(goal: Goal, values: &[f64]) -> StudyPage {
        let trials = (0..).zip(values).map(|(number, value)| PageTrial {
            value: Some(*value),
            ..PageTrial::new(number, TrialStatus::Complete)
        });
        StudyPage {
            name: "s".into(),
            metric: "m".into(),
            goal,
            unit: "epochs".into(),
            levels: vec![],
            parameters: vec![],
            trials: trials.collect(),
            limit_bytes: None,
            made: String::new(),
        }
    }

    #[test]
    fn the_best_trial_is_the_first_of_the_best_finite_values() {
        let values = [2.0, f64::NEG_INFINITY, 1.0, f64::NAN, 1.0, f64::INFINITY, 2.0];
        assert_eq!(study(Goal::Minimize, &values).best(), Some(2));
        assert_eq!(study(Goal::Maximize, &values).best(), Some(0));
        assert_eq!(study(Goal::Minimize, &[f64::NAN]).best(), None);
    }

    #[test]
    fn a_pruned_trial_is_never_the_best() {
        let mut study = study(Goal::Minimize, &[2.0, 1.0]);
        study.trials[1].status = TrialStatus::Pruned;
        assert_eq!(study.best(), Some(0));
    }

    #[test]
    fn a_trial_has_a_value_at_the_lengths_that_it_reached() {
        let mut trial = PageTrial::new(0, TrialStatus::Pruned);
        trial.steps = [(1, 0.5), (3, 0.4)].into();
        assert_eq!(
            [0, 1, 2, 3, 4].map(|level| trial.value_at(level)),
            [None, Some(0.5), Some(0.5), Some(0.4), None]
        );
    }

    #[test]
    fn a_value_of_another_kind_has_no_place_on_an_axis() {
        let choice = ParameterKind::Choice { choices: vec!["sgd".into(), "adamw".into()] };
        assert_eq!(choice.number(Some(&"adamw".into())), Some(1.0));
        assert_eq!(choice.number(Some(&"lion".into())), None);
        let float = ParameterKind::Float { low: 0.0, high: 1.0, log: true };
        assert_eq!(
            [float.number(Some(&0.5.into())), float.number(Some(&"x".into())), float.number(None)],
            [Some(0.5), None, None]
        );
        assert!(!float.is_log(), "no logarithm of zero");
    }

    #[test]
    fn a_study_is_read_back_as_it_was_written() {
        let mut study = study(Goal::Maximize, &[0.5]);
        study.parameters = vec![PageParameter {
            name: "x".into(),
            kind: ParameterKind::Choice { choices: vec![true.into(), 1.into(), 0.5.into(), "a".into()] },
            when: None,
        }];
        study.trials[0].parameters.insert("x".into(), 1.into());
        let text = serde_json::to_string(&study).unwrap();
        assert_eq!(serde_json::from_str::<StudyPage>(&text).unwrap(), study);
    }
}
