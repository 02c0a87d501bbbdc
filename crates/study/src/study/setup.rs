use std::collections::BTreeMap;

use oomph_search::{Direction, Domain, Parameter, When};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    error::StudyError,
    journal::{CreateStudy, Distribution, Operation, Owner, StudyAttribute, typed},
    state::StudyState,
};

const SPACE: &str = "oomph:space";
const SEED: &str = "oomph:seed";
const SETTINGS: &str = "oomph:settings";
const METRIC_NAMES: &str = "study:metric_names";

/// What a study is begun with, and what all its workers agree on.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The name of the study.
    pub name: String,
    /// Whether small or large values are good.
    pub direction: Direction,
    /// The name of the value, such as `eval loss`.
    pub metric: String,
    /// All random numbers of the study derive from it.
    pub seed: u64,
    /// The parameters.
    pub space: Vec<Parameter>,
    /// Other settings that decide about trials, such as the scheduler. Two workers must have the same.
    pub settings: BTreeMap<String, Value>,
}

/// A parameter in the attribute `oomph:space`.
#[derive(Serialize, Deserialize)]
struct StoredParameter {
    name: String,
    distribution: Distribution,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    when: Option<StoredWhen>,
}

#[derive(Serialize, Deserialize)]
struct StoredWhen {
    parameter: String,
    choices: Vec<usize>,
}

impl Setup {
    /// The parameter of a name.
    ///
    /// # Errors
    /// The space has none.
    pub fn parameter(&self, name: &str) -> Result<&Parameter, StudyError> {
        let unknown = || StudyError::UnknownParameter { name: name.to_owned() };
        self.space.iter().find(|parameter| parameter.name == name).ok_or_else(unknown)
    }

    /// The setup of a study, from its attributes.
    ///
    /// # Errors
    /// An attribute is missing: the study was not created by oomph.
    pub(crate) fn read(state: &StudyState) -> Result<Self, StudyError> {
        let user = |key| state.attribute(Owner::User, key).ok_or(StudyError::Foreign { key });
        let space: Vec<StoredParameter> = stored(user(SPACE)?, SPACE)?;
        let parameter = |stored: StoredParameter| match stored.distribution {
            Distribution::Known(domain) => Ok(Parameter {
                name: stored.name,
                domain,
                when: stored.when.map(|when| When { parameter: when.parameter, choices: when.choices }),
            }),
            Distribution::Other(_) => Err(StudyError::Foreign { key: SPACE }),
        };
        Ok(Self {
            name: state.name().to_owned(),
            direction: state.direction(),
            metric: metric(state).unwrap_or("value").to_owned(),
            seed: user(SEED)?.as_u64().ok_or(StudyError::Foreign { key: SEED })?,
            space: space.into_iter().map(parameter).collect::<Result<_, _>>()?,
            settings: stored(user(SETTINGS)?, SETTINGS)?,
        })
    }

    /// The records that are missing in a journal for a study of this setup.
    ///
    /// # Errors
    /// The study exists and has another setup, or a parameter of another kind.
    pub(crate) fn complete(&self, state: &StudyState) -> Result<Vec<Operation>, StudyError> {
        let mut operations = Vec::new();
        if !state.exists() {
            operations.push(Operation::CreateStudy(CreateStudy {
                study_name: self.name.clone(),
                directions: vec![self.direction],
            }));
        } else {
            self.compare(state)?;
        }
        let study_id = state.id().unwrap_or(state.next_study());
        let mut add = |owner, key: &str, value| {
            if state.attribute(owner, key).is_none() {
                let key = key.to_owned();
                operations.push(Operation::StudyAttribute(StudyAttribute { study_id, owner, key, value }));
            }
        };
        add(Owner::System, METRIC_NAMES, Value::from(vec![self.metric.clone()]));
        add(Owner::User, SEED, Value::from(self.seed));
        add(Owner::User, SETTINGS, Value::from_iter(self.settings.clone()));
        add(Owner::User, SPACE, self.space_value()?);
        Ok(operations)
    }

    fn space_value(&self) -> Result<Value, StudyError> {
        let stored = |parameter: &Parameter| StoredParameter {
            name: parameter.name.clone(),
            distribution: Distribution::Known(parameter.domain.clone()),
            when: parameter
                .when
                .as_ref()
                .map(|when| StoredWhen { parameter: when.parameter.clone(), choices: when.choices.clone() }),
        };
        let space: Vec<_> = self.space.iter().map(stored).collect();
        serde_json::to_value(space).map_err(|error| StudyError::Unwritable(error.to_string()))
    }

    /// Compares with a study that exists. Attributes that it lacks are no difference.
    fn compare(&self, state: &StudyState) -> Result<(), StudyError> {
        if state.objectives() != 1 {
            return Err(differs("the number of objectives", state.objectives(), 1));
        }
        if state.direction() != self.direction {
            return Err(differs("the direction", word(state.direction()), word(self.direction)));
        }
        if let Some(metric) = metric(state).filter(|metric| *metric != self.metric) {
            return Err(differs("the metric", format!("`{metric}`"), format!("`{}`", self.metric)));
        }
        if let Some(seed) = state.attribute(Owner::User, SEED).filter(|seed| seed.as_u64() != Some(self.seed))
        {
            return Err(differs("the seed", seed, self.seed));
        }
        if let Some(settings) = state.attribute(Owner::User, SETTINGS) {
            let there: BTreeMap<String, Value> = stored(settings, SETTINGS)?;
            let shown = |settings: &BTreeMap<String, Value>| -> BTreeMap<String, String> {
                settings.iter().map(|(key, value)| (key.clone(), format!("`{value}`"))).collect()
            };
            compare_maps("the setting", &shown(&there), &shown(&self.settings))?;
        }
        if let Some(space) = state.attribute(Owner::User, SPACE) {
            compare_maps("the parameter", &shown_space(space), &shown_space(&self.space_value()?))?;
        }
        self.space.iter().try_for_each(|parameter| {
            check_kind(state, &parameter.name, &Distribution::Known(parameter.domain.clone()))
        })
    }
}

/// The parameters of a stored space in words, for a comparison and its message.
fn shown_space(space: &Value) -> BTreeMap<String, String> {
    let parameters: Vec<StoredParameter> = typed(space).unwrap_or_default();
    let condition = |when: &StoredWhen| {
        let other = parameters.iter().find(|other| other.name == when.parameter);
        let choices = match other.map(|other| &other.distribution) {
            Some(Distribution::Known(Domain::Choice(choices))) => {
                let some = when.choices.iter().filter_map(|index| choices.get(*index).cloned());
                Domain::Choice(some.collect()).to_string()
            }
            _ => format!("{:?}", when.choices),
        };
        format!(", when {} is {choices}", when.parameter)
    };
    let shown = |parameter: &StoredParameter| {
        let domain = match &parameter.distribution {
            Distribution::Known(domain) => domain.to_string(),
            Distribution::Other(_) => parameter.distribution.kind(),
        };
        domain + &parameter.when.as_ref().map(condition).unwrap_or_default()
    };
    parameters.iter().map(|parameter| (parameter.name.clone(), shown(parameter))).collect()
}

/// Checks that a parameter has the kind, scale and choices of earlier trials.
///
/// # Errors
/// It has others, which Optuna would refuse.
pub(crate) fn check_kind(state: &StudyState, name: &str, here: &Distribution) -> Result<(), StudyError> {
    match state.distribution(name).filter(|known| !known.is_compatible(here)) {
        None => Ok(()),
        Some(known) => Err(StudyError::IncompatibleParameter {
            name: name.to_owned(),
            study: known.kind(),
            here: here.kind(),
        }),
    }
}

fn compare_maps(
    what: &str,
    study: &BTreeMap<String, String>,
    here: &BTreeMap<String, String>,
) -> Result<(), StudyError> {
    let shown = |value: Option<&String>| value.cloned().unwrap_or_else(|| "absent".to_owned());
    let mut keys = study.keys().chain(here.keys());
    match keys.find(|key| study.get(*key) != here.get(*key)) {
        None => Ok(()),
        Some(key) => {
            let what = format!("{what} `{}`", oomph_core::printable(key));
            Err(differs(&what, shown(study.get(key)), shown(here.get(key))))
        }
    }
}

fn differs(what: &str, study: impl ToString, here: impl ToString) -> StudyError {
    StudyError::Differs { what: what.to_owned(), study: study.to_string(), here: here.to_string() }
}

fn stored<T: DeserializeOwned>(value: &Value, key: &'static str) -> Result<T, StudyError> {
    typed(value).ok_or(StudyError::Foreign { key })
}

fn metric(state: &StudyState) -> Option<&str> {
    state.attribute(Owner::System, METRIC_NAMES)?.get(0)?.as_str()
}

fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Minimize => "minimize",
        Direction::Maximize => "maximize",
    }
}
