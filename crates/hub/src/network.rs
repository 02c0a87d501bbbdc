use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use oomph_config::{
    ConfigError, Origin, Section, Value,
    assumed::{self, is_stored},
};
use oomph_core::{Bytes, open_file};

use crate::{
    error::HubError,
    family::{Absent, FAMILIES, Family, HEAD_SIZE, Kind, MODEL_TYPE, Shared},
    fields::{self, Field, Fields},
};

/// The name of the file beside a network's weights.
pub const FILE: &str = "config.json";

/// The largest file that is read. A list of 21,841 classes takes 2 MB.
const MAX_SIZE: Bytes = Bytes::mib(16);

/// A `config.json`: the network that it describes, as settings of oomph's model.
pub struct HubConfig {
    path: PathBuf,
    pub(crate) family: &'static Family,
    pub(crate) fields: Fields,
    pub(crate) settings: Vec<Described>,
}

/// A setting of `[model]` as a `config.json` has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// The key in `[model]`, such as `hidden`.
    pub key: &'static str,
    /// The value.
    pub value: Value,
    /// The key in the file, such as `n_embd`. A network may have the value whatever its file says.
    pub name: &'static str,
}

impl HubConfig {
    /// Reads a file, or the `config.json` of a folder.
    ///
    /// # Errors
    /// The file is missing, is no `config.json`, or describes a network that oomph does not have.
    pub fn open(path: &Path) -> Result<Self, HubError> {
        let path = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
        let bytes = bytes_of(&path)?;
        Self::of_bytes(&path, &bytes)
    }

    /// Reads the `config.json` in the folder of a file of weights. `None` if there is none, or if it describes no network.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn beside(weights: &Path) -> Result<Option<Self>, HubError> {
        let path = weights.with_file_name(FILE);
        let bytes = match bytes_of(&path) {
            Err(HubError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        // Programs of all kinds have a `config.json`.
        match fields::read(&bytes, &|name| name == MODEL_TYPE) {
            Ok(fields) if fields.contains_key(MODEL_TYPE) => Self::of_bytes(&path, &bytes).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads the bytes of a file. Messages call it `path`.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn of_bytes(path: &Path, bytes: &[u8]) -> Result<Self, HubError> {
        let fields = fields::read(bytes, &Family::knows)
            .map_err(|source| HubError::Json { path: path.to_owned(), source })?;
        let expected = || {
            let named: Vec<_> = FAMILIES.iter().map(|family| format!("`{}`", family.model_type)).collect();
            named.join(", ")
        };
        let found = fields.get(MODEL_TYPE);
        let family = match found.and_then(Field::scalar) {
            Some(Value::String(name)) => Family::of(name),
            _ => None,
        };
        let unknown = || HubError::Value {
            path: path.to_owned(),
            key: MODEL_TYPE.into(),
            found: found.map_or_else(|| "not there".into(), ToString::to_string),
            expected: format!("a network that oomph has: {}", expected()),
        };
        let mut config =
            Self { path: path.to_owned(), family: family.ok_or_else(unknown)?, fields, settings: Vec::new() };
        config.read_shared()?;
        config.check_required()?;
        Ok(config)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// oomph's `model.name` for the network.
    pub fn model(&self) -> &'static str {
        self.family.model
    }

    /// The settings of `[model]` that the file decides.
    pub fn settings(&self) -> &[Described] {
        &self.settings
    }

    fn read_shared(&mut self) -> Result<(), HubError> {
        for shared in self.family.shared {
            let (name, value) = self.shared_value(shared)?;
            match self.settings.iter().find(|known| known.key == shared.key) {
                Some(known) if !known.value.same(&value) => {
                    let expected = format!(
                        "`{}`, as `{}`: oomph has one `model.{}`",
                        known.value.shown(),
                        known.name,
                        shared.key
                    );
                    return Err(self.refused(name, &value.shown(), expected));
                }
                Some(_) => {}
                None => self.settings.push(Described { key: shared.key, value, name }),
            }
        }
        let fixed = self.family.fixed.iter();
        self.settings.extend(fixed.map(|(key, value)| Described {
            key,
            value: (*value).into(),
            name: MODEL_TYPE,
        }));
        Ok(())
    }

    /// The value of a setting, in oomph's terms, and the name that the file has for it.
    fn shared_value(&self, shared: &Shared) -> Result<(&'static str, Value), HubError> {
        let is_there = |name: &&&str| !matches!(self.fields.get(**name), None | Some(Field::Null));
        let Some((name, field)) =
            shared.names.iter().find(is_there).and_then(|name| Some((*name, self.fields.get(*name)?)))
        else {
            return Ok((shared.names[0], self.absent(shared)));
        };
        let value = match (shared.kind, field) {
            // The sides of a patch.
            (Kind::Integer, Field::Pair([first, second])) if first == second => Some((*first).into()),
            (kind, field) => field.scalar().and_then(|value| kind.to_own(value)),
        };
        value
            .map(|value| (name, value))
            .ok_or_else(|| self.refused(name, &field.to_string(), shared.kind.expected()))
    }

    fn absent(&self, shared: &Shared) -> Value {
        match shared.absent {
            Absent::Is(constant) => {
                let value = Value::from(constant);
                shared.kind.to_own(&value).unwrap_or(value)
            }
            Absent::Times(factor, key) => match self.setting(key) {
                Some(Value::Integer(count)) => Value::Integer(count.saturating_mul(factor as i128)),
                _ => Value::from(factor),
            },
        }
    }

    /// The value of a setting that was read before.
    fn setting(&self, key: &str) -> Option<&Value> {
        self.settings.iter().find(|known| known.key == key).map(|known| &known.value)
    }

    /// Checks what oomph's model has in one way alone.
    fn check_required(&self) -> Result<(), HubError> {
        for (name, constant) in self.family.required {
            let wanted = Value::from(*constant);
            match self.fields.get(*name) {
                None | Some(Field::Null) => {}
                Some(Field::Scalar(value)) if value.same(&wanted) => {}
                Some(field) => {
                    let expected =
                        format!("`{}`, as oomph's `{}` computes", wanted.shown(), self.family.model);
                    return Err(self.refused(name, &field.to_string(), expected));
                }
            }
        }
        let (Some(Value::Integer(hidden)), Some(Value::Integer(heads))) =
            (self.setting("hidden"), self.setting("heads"))
        else {
            return Ok(());
        };
        match self.fields.get(HEAD_SIZE) {
            Some(Field::Scalar(size)) if *heads == 0 || !size.same(&Value::Integer(hidden / heads)) => {
                let expected = format!(
                    "`{}`, a share of the {hidden} features for each of {heads} heads",
                    hidden.checked_div(*heads).unwrap_or_default()
                );
                Err(self.refused(HEAD_SIZE, &size.shown(), expected))
            }
            _ => Ok(()),
        }
    }

    fn refused(&self, key: &str, found: &str, expected: impl Into<String>) -> HubError {
        let (path, found) = (self.path.clone(), found.to_owned());
        HubError::Value { path, key: key.to_owned(), found, expected: expected.into() }
    }
}

impl Kind {
    /// The value in oomph's terms; `None` for one of another kind.
    fn to_own(self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Self::Integer, Value::Integer(integer)) if *integer >= 0 => Some(value.clone()),
            (Self::Number, Value::Integer(integer)) => Some(Value::Number(*integer as f64)),
            (Self::Number, Value::Number(_)) | (Self::Boolean, Value::Boolean(_)) => Some(value.clone()),
            (Self::Names(names), Value::String(text)) => {
                let own = names.iter().find(|(there, _)| there == text)?.1;
                Some(own.into())
            }
            _ => None,
        }
    }

    /// The value in the terms of `config.json`; `None` for one that it cannot have.
    pub(crate) fn to_hub(self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Self::Names(names), Value::String(text)) => {
                let there = names.iter().find(|(_, own)| own == text)?.0;
                Some(there.into())
            }
            _ => self.to_own(value),
        }
    }

    /// The values that a network of this kind can have in oomph, in words.
    pub(crate) fn own_names(self) -> String {
        let Self::Names(names) = self else { return self.expected() };
        let mut named: Vec<_> = names.iter().map(|(_, own)| format!("`{own}`")).collect();
        named.dedup();
        named.join(" or ")
    }

    /// The values that it takes in a `config.json`, in words.
    fn expected(self) -> String {
        match self {
            Self::Integer => "an integer of at least 0".into(),
            Self::Number => "a number".into(),
            Self::Boolean => "`true` or `false`".into(),
            Self::Names(names) => {
                let named: Vec<_> = names.iter().map(|(there, _)| format!("`{there}`")).collect();
                named.join(" or ")
            }
        }
    }
}

/// The keys of `[model]` that every `config.json` decides.
const OF_EVERY_NETWORK: [&str; 9] =
    ["layers", "hidden", "heads", "key_heads", "feed_forward", "activation", "epsilon", "norm", "bias"];

/// Reads the file that `model.config` names: what it says are the defaults of `[model]` for readers that ask later. `model`
/// is the name of the model that reads. In a stored configuration they are stored, and the file may be gone.
///
/// # Errors
/// The file cannot be read, or describes another model.
pub fn assume(settings: &Section, model: &str) -> Result<(), ConfigError> {
    let Some(path) = settings.optional_string("config")? else { return Ok(()) };
    let is_resolved = OF_EVERY_NETWORK.iter().all(|key| settings.contains(key));
    if is_stored(settings, "config") && is_resolved {
        return Ok(());
    }
    let refused = |why: String| {
        let expected = format!("the path of a `{FILE}` for `model.name={model}`, or of its folder: {why}");
        settings.invalid("config", expected)
    };
    let config = HubConfig::open(Path::new(&path)).map_err(|error| refused(with_cause(&error)))?;
    if config.model() != model {
        return Err(refused(format!(
            "it is that of a {}, `model.name={}`",
            config.family.title,
            config.model()
        )));
    }
    settings.has_no_effect(
        "preset",
        format!("`model.config` names `{}`, which has all of its values", config.path.display()),
    );
    for Described { key, value, name } in config.settings {
        let origin = Origin::Network { path: config.path.clone(), key: name.to_owned() };
        assumed::assume(settings, key, value, origin);
    }
    Ok(())
}

/// The error with the system's, in one line.
fn with_cause(error: &HubError) -> String {
    match error {
        HubError::Io { source, .. } => format!("{error}: {source}"),
        error => error.to_string(),
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, HubError> {
    let failed = |source| HubError::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = open_file(path).map_err(failed)?;
    let read = file.take(MAX_SIZE.get() + 1).read_to_end(&mut bytes).map_err(failed)?;
    match read as u64 > MAX_SIZE.get() {
        true => Err(HubError::TooLarge { path: path.to_owned(), limit: MAX_SIZE }),
        false => Ok(bytes),
    }
}
