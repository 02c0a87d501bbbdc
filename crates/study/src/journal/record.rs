use std::collections::BTreeMap;

use oomph_core::printable;
use oomph_search::Direction;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::{
    attributes::{self, Attributes},
    distribution::Distribution,
    json::{Number, strict},
};

/// One line of a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Who wrote it. A worker of oomph has one name for all its records.
    pub worker: String,
    /// What it changes.
    pub operation: Operation,
}

/// What a record changes. Optuna numbers the operations from 0 to 9.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Creates a study. Its id is the number of studies before it.
    CreateStudy(CreateStudy),
    /// Deletes a study. Its id is not used again.
    DeleteStudy(DeleteStudy),
    /// Sets an attribute of a study.
    StudyAttribute(StudyAttribute),
    /// Creates a trial. Its id is the number of trials before it, of all studies.
    CreateTrial(Box<CreateTrial>),
    /// Gives a parameter of a trial its value.
    Parameter(TrialParameter),
    /// Changes the state of a trial, and its value at the end.
    TrialState(SetTrialState),
    /// Reports a value after some steps.
    Intermediate(Intermediate),
    /// Sets an attribute of a trial.
    TrialAttribute(TrialAttribute),
    /// An operation 10 of Optuna 5, which has no effect there either.
    Discard,
}

/// The state of a trial in Optuna's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialState {
    /// A worker works on it.
    Running,
    /// It has a value.
    Complete,
    /// It was given up.
    Pruned,
    /// It failed.
    Fail,
    /// It is enqueued.
    Waiting,
}

impl TrialState {
    const ALL: [Self; 5] = [Self::Running, Self::Complete, Self::Pruned, Self::Fail, Self::Waiting];

    /// Whether the trial has ended. Ended trials never change.
    pub const fn is_finished(self) -> bool {
        matches!(self, Self::Complete | Self::Pruned | Self::Fail)
    }

    /// As a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Pruned => "pruned",
            Self::Fail => "failed",
            Self::Waiting => "waiting",
        }
    }
}

impl Serialize for TrialState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(*self as u8)
    }
}

impl<'de> Deserialize<'de> for TrialState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = u64::deserialize(deserializer)?;
        let known = usize::try_from(code).ok().and_then(|code| Self::ALL.get(code));
        known.copied().ok_or_else(|| de::Error::custom(format_args!("unknown state {code} of a trial")))
    }
}

/// See [`Operation::CreateStudy`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreateStudy {
    /// Its name, which no other study of the journal has.
    pub study_name: String,
    /// One for each value of a trial. Studies of oomph have one.
    #[serde(with = "directions")]
    pub directions: Vec<Direction>,
}

mod directions {
    use super::{Deserialize, Deserializer, Direction, Serializer, de};

    pub(super) fn serialize<S: Serializer>(these: &[Direction], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(these.iter().map(|direction| match direction {
            Direction::Minimize => 1,
            Direction::Maximize => 2,
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Direction>, D::Error> {
        let codes = Vec::<u64>::deserialize(from)?;
        let direction = |code| match code {
            1 => Ok(Direction::Minimize),
            2 => Ok(Direction::Maximize),
            _ => Err(de::Error::custom(format_args!("unknown direction {code}; expected 1 or 2"))),
        };
        codes.into_iter().map(direction).collect()
    }
}

/// See [`Operation::DeleteStudy`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteStudy {
    /// The id of the study.
    pub study_id: u64,
}

/// Whose an attribute is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Of the user, and of oomph.
    User,
    /// Of Optuna.
    System,
}

/// See [`Operation::StudyAttribute`].
#[derive(Clone, Debug, PartialEq)]
pub struct StudyAttribute {
    /// The id of the study.
    pub study_id: u64,
    /// Whose it is.
    pub owner: Owner,
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: Value,
}

/// See [`Operation::TrialAttribute`].
#[derive(Clone, Debug, PartialEq)]
pub struct TrialAttribute {
    /// The id of the trial.
    pub trial_id: u64,
    /// Whose it is.
    pub owner: Owner,
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: Value,
}

/// See [`Operation::CreateTrial`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreateTrial {
    /// The id of the study.
    pub study_id: u64,
    /// When it began.
    pub datetime_start: Option<String>,
    /// Its state, if it is not running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TrialState>,
    /// Its value, if it is complete and has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Number>,
    /// Its values, if it is complete and has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<Number>>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datetime_complete: Option<String>,
    /// The distribution of each parameter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub distributions: BTreeMap<String, Distribution>,
    /// The internal value of each parameter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Number>,
    /// Attributes of the user.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "attributes::read")]
    pub user_attrs: Attributes,
    /// Attributes of Optuna.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "attributes::read")]
    pub system_attrs: Attributes,
    /// Values by step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub intermediate_values: BTreeMap<i64, Number>,
}

impl CreateTrial {
    /// A trial of a study without anything else.
    pub fn new(study_id: u64) -> Self {
        Self {
            study_id,
            datetime_start: None,
            state: None,
            value: None,
            values: None,
            datetime_complete: None,
            distributions: BTreeMap::new(),
            params: BTreeMap::new(),
            user_attrs: Attributes::new(),
            system_attrs: Attributes::new(),
            intermediate_values: BTreeMap::new(),
        }
    }
}

/// See [`Operation::Parameter`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialParameter {
    /// The id of the trial.
    pub trial_id: u64,
    /// The name of the parameter.
    pub param_name: String,
    /// Its internal value.
    pub param_value_internal: Number,
    /// Its distribution.
    pub distribution: Distribution,
}

/// See [`Operation::TrialState`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetTrialState {
    /// The id of the trial.
    pub trial_id: u64,
    /// The new state.
    pub state: TrialState,
    /// Its values, if it is complete.
    pub values: Option<Vec<Number>>,
    /// When it began, for a trial that begins to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datetime_start: Option<String>,
    /// When it ended, for a trial that ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datetime_complete: Option<String>,
}

/// See [`Operation::Intermediate`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intermediate {
    /// The id of the trial.
    pub trial_id: u64,
    /// After how many steps.
    pub step: i64,
    /// The value.
    pub intermediate_value: Number,
}

#[derive(Deserialize)]
struct Head {
    op_code: u64,
    worker_id: String,
}

/// The two operations on attributes of a study, or of a trial.
#[derive(Serialize, Deserialize)]
struct AttributeFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    study_id: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trial_id: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "attributes::read_some")]
    user_attr: Option<Attributes>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "attributes::read_some")]
    system_attr: Option<Attributes>,
}

impl AttributeFields {
    fn new(owner: Owner, key: &str, value: &Value) -> Self {
        let attributes = Some(Attributes::from([(key.to_owned(), value.clone())]));
        let [user_attr, system_attr] = match owner {
            Owner::User => [attributes, None],
            Owner::System => [None, attributes],
        };
        Self { study_id: None, trial_id: None, user_attr, system_attr }
    }

    /// The one attribute, as Optuna demands.
    fn only(self, owner: Owner) -> Result<(String, Value), String> {
        let field = match owner {
            Owner::User => "user_attr",
            Owner::System => "system_attr",
        };
        let attributes = match owner {
            Owner::User => self.user_attr,
            Owner::System => self.system_attr,
        };
        let mut attributes = attributes.ok_or_else(|| format!("missing field `{field}`"))?.into_iter();
        match (attributes.next(), attributes.next()) {
            (Some(attribute), None) => Ok(attribute),
            _ => Err(format!("`{field}` must have one key")),
        }
    }
}

impl Record {
    /// Reads a line, without its end. Fields that no version of Optuna has are ignored.
    ///
    /// # Errors
    /// Why it is no record.
    pub fn parse(line: &str) -> Result<Self, String> {
        if line.trim_ascii().is_empty() {
            return Err("the line is blank, which Optuna does not accept either".into());
        }
        let parsed = serde_json::from_str::<Head>(line).map_err(|error| error.to_string()).and_then(|head| {
            let operation = Operation::parse(head.op_code, line)?;
            Ok(Self { worker: head.worker_id, operation })
        });
        parsed.or_else(|reason| match strict(line) {
            std::borrow::Cow::Borrowed(_) => Err(printable(reason)),
            std::borrow::Cow::Owned(line) => {
                let head: Head = from_json(&line)?;
                Ok(Self { worker: head.worker_id, operation: Operation::parse(head.op_code, &line)? })
            }
        })
    }

    /// The line, without its end.
    ///
    /// # Errors
    /// A number is not finite.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        self.operation.to_line(&self.worker)
    }
}

fn from_json<T: de::DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(printable)
}

impl Operation {
    fn parse(code: u64, line: &str) -> Result<Self, String> {
        let attribute = |owner| {
            let fields: AttributeFields = from_json(line)?;
            let [study_id, trial_id] = [fields.study_id, fields.trial_id];
            let (key, value) = fields.only(owner)?;
            match (code, study_id, trial_id) {
                (2 | 3, Some(study_id), _) => {
                    Ok(Self::StudyAttribute(StudyAttribute { study_id, owner, key, value }))
                }
                (8 | 9, _, Some(trial_id)) => {
                    Ok(Self::TrialAttribute(TrialAttribute { trial_id, owner, key, value }))
                }
                (2 | 3, ..) => Err("missing field `study_id`".into()),
                _ => Err("missing field `trial_id`".into()),
            }
        };
        match code {
            0 => from_json(line).map(Self::CreateStudy),
            1 => from_json(line).map(Self::DeleteStudy),
            2 | 8 => attribute(Owner::User),
            3 | 9 => attribute(Owner::System),
            4 => from_json(line).map(|created| Self::CreateTrial(Box::new(created))),
            5 => from_json(line).map(Self::Parameter),
            6 => from_json(line).map(Self::TrialState),
            7 => from_json(line).map(Self::Intermediate),
            10 => Ok(Self::Discard),
            _ => Err(format!("unknown operation {code}; expected 0 to 10")),
        }
    }

    /// The line of this operation by `worker`, without its end.
    pub(crate) fn to_line(&self, worker: &str) -> Result<String, serde_json::Error> {
        match self {
            Self::CreateStudy(fields) => written(0, worker, fields),
            Self::DeleteStudy(fields) => written(1, worker, fields),
            Self::StudyAttribute(of) => {
                let fields = AttributeFields::new(of.owner, &of.key, &of.value);
                let fields = AttributeFields { study_id: Some(of.study_id), ..fields };
                written(if of.owner == Owner::User { 2 } else { 3 }, worker, &fields)
            }
            Self::CreateTrial(fields) => written(4, worker, fields),
            Self::Parameter(fields) => written(5, worker, fields),
            Self::TrialState(fields) => written(6, worker, fields),
            Self::Intermediate(fields) => written(7, worker, fields),
            Self::TrialAttribute(of) => {
                let fields = AttributeFields::new(of.owner, &of.key, &of.value);
                let fields = AttributeFields { trial_id: Some(of.trial_id), ..fields };
                written(if of.owner == Owner::User { 8 } else { 9 }, worker, &fields)
            }
            Self::Discard => written(10, worker, &BTreeMap::<String, Value>::new()),
        }
    }
}

#[derive(Serialize)]
struct Line<'a, T> {
    op_code: u8,
    worker_id: &'a str,
    #[serde(flatten)]
    fields: &'a T,
}

fn written<T: Serialize>(op_code: u8, worker_id: &str, fields: &T) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Line { op_code, worker_id, fields })
}
