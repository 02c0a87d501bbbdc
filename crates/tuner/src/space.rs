//! The space of a configuration, as samplers know it.

use oomph_config::{
    Config, ConfigError, Value,
    sections::space::{Domain as ConfigDomain, SpaceEntry, When as ConfigWhen},
};
use oomph_search::{Choice, Domain, Parameter, Point, SearchError, Space, When};

/// The space that samplers search for the keys of a configuration.
///
/// # Errors
/// A domain that the configuration accepts and samplers refuse.
pub(crate) fn space(entries: &[SpaceEntry]) -> Result<Space, SearchError> {
    Space::new(entries.iter().map(parameter).collect())
}

fn parameter(entry: &SpaceEntry) -> Parameter {
    let when = entry.when.as_ref();
    Parameter {
        name: entry.key.clone(),
        domain: domain(&entry.domain),
        when: when
            .map(|ConfigWhen { key, choices }| When { parameter: key.clone(), choices: choices.clone() }),
    }
}

/// The values of a parameter, as samplers know them.
pub(crate) fn domain(domain: &ConfigDomain) -> Domain {
    match domain {
        &ConfigDomain::Float { low, high, step, log } => Domain::Float { low, high, step, log },
        &ConfigDomain::Integer { low, high, step, log } => Domain::Integer { low, high, step, log },
        ConfigDomain::Choice(choices) => Domain::Choice(choices.iter().map(choice).collect()),
    }
}

fn choice(value: &Value) -> Choice {
    match value {
        Value::Boolean(boolean) => Choice::Boolean(*boolean),
        Value::Number(number) => Choice::Number(*number),
        Value::Integer(integer) => match i64::try_from(*integer) {
            Ok(integer) => Choice::Integer(integer),
            Err(_) => Choice::Text(value.to_string()),
        },
        Value::String(text) => Choice::Text(text.clone()),
        // Optuna's journal has no lists among its choices.
        Value::List(_) | Value::Table(_) => Choice::Text(value.to_string()),
    }
}

/// The values of a point, by key. Values outside of their domain are left out.
pub(crate) fn settings(entries: &[SpaceEntry], point: &Point) -> Vec<(String, Value)> {
    let value = |entry: &SpaceEntry| Some((entry.key.clone(), entry.value(*point.get(&entry.key)?)?));
    entries.iter().filter_map(value).collect()
}

/// The configuration with these settings, and then `more` of them.
pub(crate) fn with_settings(
    config: &Config,
    settings: &[(String, Value)],
    more: impl IntoIterator<Item = (&'static str, Value)>,
) -> Result<Config, ConfigError> {
    let more: Vec<_> = more.into_iter().collect();
    let settings = settings.iter().map(|(key, value)| (key.as_str(), value.clone()));
    let all: Vec<_> = settings.chain(more.iter().map(|(key, value)| (*key, value.clone()))).collect();
    config.at_point(&all)
}

/// A value of the configuration as the journal has it: a list is a text.
pub fn journal_value(value: &Value) -> serde_json::Value {
    match choice(value) {
        Choice::Boolean(boolean) => boolean.into(),
        Choice::Integer(integer) => integer.into(),
        Choice::Number(number) => number.into(),
        Choice::Text(text) => text.into(),
    }
}
