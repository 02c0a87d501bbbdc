//! A configuration beside the `config.json` of the weights.

use oomph_config::{Entry, Value};
use oomph_core::{InputSpec, SampleSpec};

use crate::{
    error::HubError,
    family::{CHANNELS, FAMILIES, IMAGE, MODEL_TYPE, VOCABULARY},
    fields::Field,
    network::{Described, HubConfig},
};

/// Whether Hugging Face has networks that oomph's `model.name` has too.
pub fn has_networks(model: &str) -> bool {
    FAMILIES.iter().any(|family| family.model == model)
}

/// The value of a key of `[model]`.
pub(crate) fn value<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.key.strip_prefix("model.") == Some(key) && entry.value.is_some())
}

/// The value of `model.context`: without one, a text has as many positions as its samples.
pub(crate) fn context(entries: &[Entry], spec: &SampleSpec) -> Option<Value> {
    let steps = || match spec.input {
        InputSpec::Tokens { steps, .. } => Some(Value::from(steps)),
        _ => None,
    };
    value(entries, "context").and_then(|entry| entry.value.clone()).or_else(steps)
}

impl HubConfig {
    /// Checks that a configuration whose resolved settings are `entries` describes this network, for samples of `spec`.
    ///
    /// # Errors
    /// [`HubError::Differs`] with all differences.
    pub fn check(&self, entries: &[Entry], spec: &SampleSpec) -> Result<(), HubError> {
        let (mut differences, mut sets) = (Vec::new(), Vec::new());
        let name = Described { key: "name", value: self.model().into(), name: MODEL_TYPE };
        for described in std::iter::once(&name).chain(self.settings()) {
            if let Some(difference) = self.difference(described, entries, spec) {
                differences.push(difference);
                sets.push(format!("--set model.{}={}", described.key, described.value.typed()));
            }
            // The settings of another model say nothing more.
            if described.key == "name" && !differences.is_empty() {
                break;
            }
        }
        differences.extend(self.differences_of_data(spec));
        match differences.is_empty() {
            true => Ok(()),
            false => Err(HubError::Differs { differences, sets }),
        }
    }

    fn difference(&self, described: &Described, entries: &[Entry], spec: &SampleSpec) -> Option<String> {
        let Described { key, value: wanted, name } = described;
        let model_type = self.family.model_type;
        let says = match *name {
            MODEL_TYPE if *key == "name" => format!("`{model_type}`"),
            MODEL_TYPE => format!("`{model_type}`, which always has `{}`", wanted.shown()),
            _ => format!("`{}`", wanted.shown()),
        };
        let there = format!("`{name}` in `{}` says {says}", self.path().display());
        let Some(entry) = value(entries, key) else {
            let is_same = *key == "context" && context(entries, spec).is_some_and(|value| value.same(wanted));
            return (!is_same).then(|| format!("`model.{key}` is not set, and {there}"));
        };
        let here = entry.value.as_ref()?;
        let shown = || format!("`model.{key}` is `{}` ({}), and {there}", here.shown(), entry.origin);
        (!is_same(here, wanted)).then(shown)
    }

    fn differences_of_data(&self, spec: &SampleSpec) -> Vec<String> {
        let integer = |name: &str| match self.fields.get(name) {
            Some(Field::Scalar(Value::Integer(integer))) => usize::try_from(*integer).ok(),
            _ => None,
        };
        let path = self.path().display();
        let differs = |name: &str, data: String, there: String| {
            format!("the data has {data}, and `{name}` in `{path}` says `{there}`")
        };
        match spec.input {
            InputSpec::Tokens { vocabulary, .. } => integer(VOCABULARY)
                .filter(|there| *there != vocabulary)
                .map(|there| differs(VOCABULARY, format!("{vocabulary} tokens"), there.to_string()))
                .into_iter()
                .collect(),
            InputSpec::Image { channels, height, width } => {
                let sides = match self.fields.get(IMAGE) {
                    Some(Field::Pair(sides)) => Some(*sides),
                    _ => integer(IMAGE).map(|side| [side; 2]),
                };
                let size = sides.filter(|sides| *sides != [height, width]).map(|[rows, columns]| {
                    differs(IMAGE, format!("images of {height}×{width} pixels"), format!("{rows}×{columns}"))
                });
                let channels = integer(CHANNELS)
                    .filter(|there| *there != channels)
                    .map(|there| differs(CHANNELS, format!("{channels} channels"), there.to_string()));
                size.into_iter().chain(channels).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Whether two values are equal in the 32 bits that networks compute with.
fn is_same(here: &Value, there: &Value) -> bool {
    match (here, there) {
        (Value::Number(here), Value::Number(there)) => *here as f32 == *there as f32,
        _ => here.same(there),
    }
}
