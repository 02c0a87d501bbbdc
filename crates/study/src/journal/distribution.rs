use oomph_search::{Choice, Domain};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::Value;

use super::json::{Number, parse};

/// The values of a parameter, as Optuna writes them.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// One that samplers know.
    Known(Domain),
    /// One of another program, as its JSON text: a choice may be `null`, for example.
    Other(String),
}

impl Distribution {
    /// Reads the JSON of a distribution. Those that Optuna retired in version 3 are read as well.
    pub fn parse(text: &str) -> Self {
        match parse::<Named>(text).ok().and_then(Named::domain) {
            Some(domain) => Self::Known(domain),
            None => Self::Other(text.to_owned()),
        }
    }

    /// Its JSON, which Optuna keeps as a string within the record.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        match self {
            Self::Known(domain) => serde_json::to_string(&Named::of(domain)),
            Self::Other(text) => Ok(text.clone()),
        }
    }

    /// Whether one parameter may have both: the same kind, scale and choices. Ranges may differ, as in Optuna.
    pub fn is_compatible(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known(Domain::Float { log, .. }), Self::Known(Domain::Float { log: other, .. }))
            | (Self::Known(Domain::Integer { log, .. }), Self::Known(Domain::Integer { log: other, .. })) => {
                log == other
            }
            (ours, other) => ours == other,
        }
    }

    /// What [`is_compatible`](Self::is_compatible) compares, for a message.
    pub(crate) fn kind(&self) -> String {
        let scale = |log: &bool| if *log { " on a logarithmic scale" } else { "" };
        match self {
            Self::Known(Domain::Float { log, .. }) => format!("a number{}", scale(log)),
            Self::Known(Domain::Integer { log, .. }) => format!("an integer{}", scale(log)),
            Self::Known(Domain::Choice(choices)) => {
                let choices: Vec<_> = choices.iter().map(choice_value).collect();
                format!("one of `{}`", oomph_core::printable(Value::Array(choices)))
            }
            Self::Other(text) => format!("`{}`", oomph_core::printable(text)),
        }
    }

    /// The value that a configuration has for the number of a point.
    pub fn external(&self, internal: f64) -> Option<Value> {
        match self {
            Self::Known(Domain::Float { .. }) => Some(Value::from(internal)),
            Self::Known(Domain::Integer { .. }) => Some(Value::from(internal as i64)),
            Self::Known(Domain::Choice(choices)) => {
                index(internal).and_then(|at| choices.get(at)).map(choice_value)
            }
            Self::Other(_) => None,
        }
    }

    /// The number of a point for a value of a configuration; `None` where the value is not in the domain.
    pub fn internal(&self, external: &Value) -> Option<f64> {
        let internal = match self {
            Self::Known(Domain::Float { .. } | Domain::Integer { .. }) => external.as_f64()?,
            Self::Known(Domain::Choice(choices)) => {
                choices.iter().position(|choice| is_choice(choice, external))? as f64
            }
            Self::Other(_) => return None,
        };
        self.contains(internal).then_some(internal)
    }

    /// Whether the number of a point is in the domain.
    pub fn contains(&self, internal: f64) -> bool {
        let is_step = |from: f64, step: f64| {
            let steps = (internal - from) / step;
            (steps - steps.round()).abs() < 1e-8
        };
        match self {
            Self::Known(Domain::Float { low, high, step, .. }) => {
                (*low..=*high).contains(&internal) && step.is_none_or(|step| is_step(*low, step))
            }
            Self::Known(Domain::Integer { low, high, step, .. }) => {
                let [low, high] = [*low as f64, *high as f64];
                internal.fract() == 0.0 && (low..=high).contains(&internal) && is_step(low, *step as f64)
            }
            Self::Known(Domain::Choice(choices)) => index(internal).is_some_and(|at| at < choices.len()),
            Self::Other(_) => false,
        }
    }
}

/// The index that a number of a point means.
fn index(internal: f64) -> Option<usize> {
    (internal >= 0.0 && internal.fract() == 0.0 && internal < 1e15).then_some(internal as usize)
}

/// A choice as JSON.
fn choice_value(choice: &Choice) -> Value {
    match choice {
        Choice::Boolean(value) => Value::from(*value),
        Choice::Integer(value) => Value::from(*value),
        Choice::Number(value) => Value::from(*value),
        Choice::Text(value) => Value::from(value.as_str()),
    }
}

fn is_choice(choice: &Choice, value: &Value) -> bool {
    match (choice, value) {
        (Choice::Integer(_) | Choice::Number(_), Value::Number(number)) => {
            choice_value(choice).as_f64() == number.as_f64()
        }
        (choice, value) => choice_value(choice) == *value,
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_json().map_err(ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::parse(&text))
    }
}

/// The JSON of a distribution.
#[derive(Serialize, Deserialize)]
#[serde(tag = "name", content = "attributes")]
enum Named {
    #[serde(rename = "FloatDistribution")]
    Float { step: Option<Number>, low: Number, high: Number, log: bool },
    #[serde(rename = "IntDistribution")]
    Int { log: bool, step: i64, low: i64, high: i64 },
    #[serde(rename = "CategoricalDistribution")]
    Categorical { choices: Vec<Item> },
    #[serde(rename = "UniformDistribution", skip_serializing)]
    Uniform { low: Number, high: Number },
    #[serde(rename = "LogUniformDistribution", skip_serializing)]
    LogUniform { low: Number, high: Number },
    #[serde(rename = "DiscreteUniformDistribution", skip_serializing)]
    DiscreteUniform { low: Number, high: Number, q: Number },
    #[serde(rename = "IntUniformDistribution", skip_serializing)]
    IntUniform { low: i64, high: i64, step: i64 },
    #[serde(rename = "IntLogUniformDistribution", skip_serializing)]
    IntLogUniform { low: i64, high: i64, step: i64 },
}

impl Named {
    fn of(domain: &Domain) -> Self {
        match domain {
            Domain::Float { low, high, step, log } => {
                Self::Float { step: step.map(Number), low: Number(*low), high: Number(*high), log: *log }
            }
            Domain::Integer { low, high, step, log } => {
                Self::Int { log: *log, step: *step, low: *low, high: *high }
            }
            Domain::Choice(choices) => {
                Self::Categorical { choices: choices.iter().cloned().map(Item).collect() }
            }
        }
    }

    /// `None` for a domain without a value.
    fn domain(self) -> Option<Domain> {
        let float = |low: Number, high: Number, step: Option<Number>, log: bool| {
            let [low, high, step] = [low.0, high.0, step.map_or(1.0, |step| step.0)]
                .map(|number| number.is_finite().then_some(number));
            let ok = low? <= high? && step? > 0.0 && (!log || low? > 0.0);
            ok.then_some([low?, high?])
        };
        let integer = |low: i64, high: i64, step: i64, log: bool| {
            (low <= high && step > 0 && (!log || low > 0)).then_some(Domain::Integer { low, high, step, log })
        };
        match self {
            Self::Float { step, low, high, log } => {
                let [low, high] = float(low, high, step, log)?;
                Some(Domain::Float { low, high, step: step.map(|step| step.0), log })
            }
            Self::Uniform { low, high } => {
                let [low, high] = float(low, high, None, false)?;
                Some(Domain::Float { low, high, step: None, log: false })
            }
            Self::LogUniform { low, high } => {
                let [low, high] = float(low, high, None, true)?;
                Some(Domain::Float { low, high, step: None, log: true })
            }
            Self::DiscreteUniform { low, high, q } => {
                let [low, high] = float(low, high, Some(q), false)?;
                Some(Domain::Float { low, high, step: Some(q.0), log: false })
            }
            Self::Int { log, step, low, high } => integer(low, high, step, log),
            Self::IntUniform { low, high, step } => integer(low, high, step, false),
            Self::IntLogUniform { low, high, step } => integer(low, high, step, true),
            Self::Categorical { choices } => (!choices.is_empty())
                .then(|| Domain::Choice(choices.into_iter().map(|item| item.0).collect())),
        }
    }
}

/// A choice, read without a detour through [`Value`], which takes more memory.
struct Item(Choice);

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Choice::Boolean(value) => serializer.serialize_bool(*value),
            Choice::Integer(value) => serializer.serialize_i64(*value),
            Choice::Number(value) => Number(*value).serialize(serializer),
            Choice::Text(value) => serializer.serialize_str(value),
        }
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Item;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a boolean, a number or a string")
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Item, E> {
                Ok(Item(Choice::Boolean(value)))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Item, E> {
                Ok(Item(Choice::Integer(value)))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Item, E> {
                let choice = i64::try_from(value).map_or(Choice::Number(value as f64), Choice::Integer);
                Ok(Item(choice))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Item, E> {
                Ok(Item(Choice::Number(value)))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Item, E> {
                Ok(Item(Choice::Text(value.to_owned())))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &str) -> Domain {
        match Distribution::parse(text) {
            Distribution::Known(domain) => domain,
            Distribution::Other(text) => panic!("{text}"),
        }
    }

    #[test]
    fn distributions_of_optuna_are_read() {
        let float = known(
            r#"{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}"#,
        );
        assert_eq!(float, Domain::Float { low: 1e-4, high: 0.1, step: None, log: true });
        let integer = known(
            r#"{"name": "IntDistribution", "attributes": {"log": false, "step": 8, "low": 8, "high": 64}}"#,
        );
        assert_eq!(integer, Domain::Integer { low: 8, high: 64, step: 8, log: false });
        let choice =
            known(r#"{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", 1, 0.5, true]}}"#);
        let choices =
            vec![Choice::Text("sgd".into()), Choice::Integer(1), Choice::Number(0.5), Choice::Boolean(true)];
        assert_eq!(choice, Domain::Choice(choices));
        let old = known(
            r#"{"name": "DiscreteUniformDistribution", "attributes": {"low": 0, "high": 1, "q": 0.25}}"#,
        );
        assert_eq!(old, Domain::Float { low: 0.0, high: 1.0, step: Some(0.25), log: false });
    }

    #[test]
    fn what_samplers_cannot_know_is_kept() {
        for text in [
            r#"{"name": "CategoricalDistribution", "attributes": {"choices": [null, 1]}}"#,
            r#"{"name": "CategoricalDistribution", "attributes": {"choices": []}}"#,
            r#"{"name": "FloatDistribution", "attributes": {"step": null, "low": -Infinity, "high": 0.1, "log": false}}"#,
            r#"{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 0, "high": 64}}"#,
            r#"{"name": "NewDistribution", "attributes": {}}"#,
            "",
        ] {
            assert_eq!(Distribution::parse(text), Distribution::Other(text.into()));
        }
    }

    #[test]
    fn values_go_both_ways() {
        let choice = Distribution::parse(
            r#"{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", 1, 0.5, true]}}"#,
        );
        for (internal, external) in
            [(0.0, Value::from("sgd")), (1.0, 1.into()), (2.0, 0.5.into()), (3.0, true.into())]
        {
            assert_eq!(choice.external(internal), Some(external.clone()));
            assert_eq!(choice.internal(&external), Some(internal));
        }
        assert_eq!(
            (choice.external(4.0), choice.external(-1.0), choice.external(f64::NAN)),
            (None, None, None)
        );
        assert_eq!(choice.internal(&Value::from("adam")), None);
        let integer = Distribution::Known(Domain::Integer { low: 8, high: 64, step: 8, log: false });
        assert_eq!(integer.internal(&Value::from(16)), Some(16.0));
        for outside in [Value::from(12), Value::from(72), Value::from(16.5), Value::Null] {
            assert_eq!(integer.internal(&outside), None);
        }
        assert_eq!(integer.external(16.0), Some(Value::from(16)));
    }
}
