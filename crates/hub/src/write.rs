//! A network of oomph as a `config.json`.

use oomph_config::{Entry, Value};
use oomph_core::{InputSpec, SampleSpec, TargetSpec};
use serde_json::{Map, Value as Json, json};

use crate::{
    compare::{context, value},
    error::HubError,
    family::{CHANNELS, FAMILIES, Family, IMAGE, MODEL_TYPE, VOCABULARY},
};

/// A `config.json` that was written.
pub struct Written {
    /// Its text.
    pub text: String,
    /// The class of `transformers` that the network is, such as `GPT2LMHeadModel`.
    pub class: &'static str,
}

/// Writes the `config.json` of the network whose resolved settings are `entries`, for samples of `spec`. `classes` are the
/// names of its classes, if they have names.
///
/// # Errors
/// Hugging Face has no such model, or it cannot have one of the settings.
pub fn config_json(
    entries: &[Entry],
    spec: &SampleSpec,
    classes: Option<&[String]>,
) -> Result<Written, HubError> {
    let model =
        value(entries, "name").and_then(|entry| entry.value.as_ref()).map_or_else(String::new, Value::shown);
    let attempts = FAMILIES.iter().filter(|family| family.model == model).map(|family| {
        let mut draft = Draft { family, entries, spec, json: Map::new(), problems: Vec::new() };
        draft.fill();
        draft
    });
    // Of networks that cannot be it, the message is about the nearest.
    let Some(draft) = attempts.min_by_key(|draft| draft.problems.len()) else {
        let mut known: Vec<String> = FAMILIES.iter().map(|family| format!("`{}`", family.model)).collect();
        known.dedup();
        return Err(HubError::NoModel { name: model, known });
    };
    let Draft { family, mut json, problems, .. } = draft;
    if !problems.is_empty() {
        return Err(HubError::NotExpressible { title: family.title, settings: problems });
    }
    json.insert("architectures".into(), json!([family.class]));
    json.insert(MODEL_TYPE.into(), family.model_type.into());
    describe_data(&mut json, spec, classes);
    // A map of texts, numbers and lists is always JSON.
    let text = serde_json::to_string_pretty(&json).unwrap_or_default();
    Ok(Written { text: format!("{text}\n"), class: family.class })
}

/// The fields of one family, and what it cannot have.
struct Draft<'a> {
    family: &'static Family,
    entries: &'a [Entry],
    spec: &'a SampleSpec,
    json: Map<String, Json>,
    problems: Vec<String>,
}

impl Draft<'_> {
    fn fill(&mut self) {
        for (key, constant) in self.family.fixed {
            let wanted = Value::from(*constant);
            if let Some(found) = self.value(key).filter(|found| !found.same(&wanted)) {
                self.problem(key, &found, &format!("it has `{}`", wanted.shown()));
            }
        }
        for shared in self.family.shared {
            let Some(found) = self.value(shared.key) else { continue };
            let Some(there) = shared.kind.to_hub(&found) else {
                let choices = shared.kind.own_names();
                self.problem(shared.key, &found, &format!("it has {choices}"));
                continue;
            };
            let there = as_json(&there);
            let other = self.json.insert(shared.names[0].into(), there.clone());
            if let Some(other) = other.filter(|other| *other != there) {
                let name = shared.names[0];
                self.problem(shared.key, &found, &format!("its one `{name}` is `{other}`"));
            }
        }
        for (name, constant) in self.family.required.iter().filter(|(name, _)| !name.contains('.')) {
            self.json.insert((*name).into(), as_json(&Value::from(*constant)));
        }
        if let Some(base) = self.json.get("rope_theta").cloned() {
            // Version 5 of `transformers` reads this object, earlier ones the key.
            self.json.insert("rope_parameters".into(), json!({ "rope_type": "default", "rope_theta": base }));
        }
        let dropout = self.value("dropout").map_or(Json::from(0.0), |dropout| as_json(&dropout));
        for name in self.family.dropouts {
            self.json.insert((*name).into(), dropout.clone());
        }
    }

    fn value(&self, key: &str) -> Option<Value> {
        match key {
            "context" => context(self.entries, self.spec),
            _ => value(self.entries, key).and_then(|entry| entry.value.clone()),
        }
    }

    fn problem(&mut self, key: &str, found: &Value, why: &str) {
        self.problems.push(format!("`model.{key}` is `{}`, and {why}", found.shown()));
    }
}

/// What a `config.json` says of the data.
fn describe_data(json: &mut Map<String, Json>, spec: &SampleSpec, classes: Option<&[String]>) {
    match spec.input {
        InputSpec::Tokens { steps, vocabulary } => {
            json.insert(VOCABULARY.into(), vocabulary.into());
            if !json.contains_key("n_positions") {
                json.insert("max_position_embeddings".into(), steps.into());
            }
            // The defaults are tokens of other vocabularies.
            for name in ["bos_token_id", "eos_token_id"] {
                json.insert(name.into(), Json::Null);
            }
        }
        InputSpec::Image { channels, height, width } => {
            let size = if height == width { height.into() } else { json!([height, width]) };
            json.insert(IMAGE.into(), size);
            json.insert(CHANNELS.into(), channels.into());
        }
        _ => {}
    }
    let problem = match spec.target {
        TargetSpec::Tokens { .. } => return,
        TargetSpec::Class { .. } => "single_label_classification",
        TargetSpec::Labels { .. } => "multi_label_classification",
        TargetSpec::Values { .. } => "regression",
    };
    json.insert("problem_type".into(), problem.into());
    let name = |index: usize| {
        let named = classes.and_then(|classes| classes.get(index).cloned());
        named.unwrap_or_else(|| format!("LABEL_{index}"))
    };
    let outputs = spec.target.outputs();
    let by_index = (0..outputs).map(|index| (index.to_string(), Json::from(name(index))));
    json.insert("id2label".into(), Json::Object(by_index.collect()));
    let by_name = (0..outputs).map(|index| (name(index), Json::from(index)));
    json.insert("label2id".into(), Json::Object(by_name.collect()));
}

fn as_json(value: &Value) -> Json {
    match value {
        Value::Integer(integer) => u64::try_from(*integer).map_or(Json::Null, Json::from),
        Value::Number(number) => Json::from(*number),
        Value::Boolean(boolean) => Json::from(*boolean),
        other => Json::from(other.shown()),
    }
}
