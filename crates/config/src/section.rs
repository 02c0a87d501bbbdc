use std::{collections::BTreeMap, fmt::Display, ops::RangeBounds, sync::Arc};

use oomph_core::Bytes;

use crate::{
    error::{ConfigError, one_of},
    ledger::Ledger,
    origin::Origin,
    parse::parse,
    range::{integers_in_words, numbers_in_words},
    setting::Setting,
    value::Value,
};

/// A section of a configuration, read by whoever knows its keys.
///
/// oomph's models and data sources, and those of users, read `[model]` and `[data]` through this type. Each method
/// that reads a key names its default and its range. The section remembers both: an unknown key is an error with the
/// nearest known one, and `oomph config` prints the defaults.
///
/// Cloning is cheap, and clones share what they remember. Keys of a table within the section are dotted:
/// `section.integer("block.width", …)`.
///
/// ```
/// use oomph_config::Section;
///
/// let model = Section::from_toml("model", "width = 0")?;
/// assert_eq!(model.integer("layers", 2, 1..)?, 2);
/// let error = model.integer("width", 64, 1..).unwrap_err();
/// assert_eq!(error.to_string(), "model:1: `model.width` is `0`; expected an integer of at least 1");
/// # Ok::<(), oomph_config::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Section {
    pub(crate) ledger: Arc<Ledger>,
}

/// Why a value was refused.
pub(crate) enum Refused {
    /// It is of another kind.
    Kind,
    /// It is of the right kind, but out of range.
    Value,
    /// It is within the range, but not in the 32 bits that trainings compute with.
    Rounded(f32),
}

impl Section {
    /// A section of these keys, which are given without the section's name.
    pub(crate) fn new(name: &str, given: BTreeMap<String, Setting>, is_stored: bool) -> Self {
        Self { ledger: Arc::new(Ledger::new(name, given, is_stored)) }
    }

    /// A section from its own lines, without the `[name]` before them: for tests and for use as a library.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, ConfigError> {
        let flat = parse(text, name, |line| Origin::Embedded { name: name.to_owned(), line })?;
        let full = |(key, setting): (String, Setting)| {
            let setting = Setting { key: format!("{name}.{key}"), ..setting };
            (key, setting)
        };
        Ok(Self::new(name, flat.settings.into_iter().map(full).collect(), false))
    }

    /// The name, such as `model`.
    pub fn name(&self) -> &str {
        self.ledger.name()
    }

    /// Whether the key is given explicitly. This does not count as reading it.
    pub fn contains(&self, key: &str) -> bool {
        self.ledger.given(key).is_some()
    }

    /// A string.
    pub fn string(&self, key: &str, default: &str) -> Result<String, ConfigError> {
        self.or(key, default.to_owned(), "a string", as_string)
    }

    /// A string without a default; `expected` describes it, as in "the directory of the images".
    pub fn required_string(&self, key: &str, expected: &str) -> Result<String, ConfigError> {
        let missing = || ConfigError::Missing { key: self.ledger.full(key), expected: expected.to_owned() };
        self.read(key, expected, as_string)?.ok_or_else(missing)
    }

    /// A string that may be absent.
    pub fn optional_string(&self, key: &str) -> Result<Option<String>, ConfigError> {
        self.read(key, "a string", as_string)
    }

    /// One of several names, each standing for a value.
    pub fn choice<T: Copy>(
        &self,
        key: &str,
        default: &str,
        allowed: &[(&'static str, T)],
    ) -> Result<T, ConfigError> {
        let names: Vec<_> = allowed.iter().map(|(name, _)| *name).collect();
        let chosen = self.or(key, default.to_owned(), &one_of(&names), as_string)?;
        let found = allowed.iter().find(|(name, _)| *name == chosen).map(|(_, value)| *value);
        found.ok_or_else(|| ConfigError::NotAllowed {
            setting: Box::new(self.ledger.setting_or(key, Value::String(chosen))),
            allowed: names.iter().map(|name| (*name).to_owned()).collect(),
        })
    }

    /// `true` or `false`.
    pub fn boolean(&self, key: &str, default: bool) -> Result<bool, ConfigError> {
        self.or(key, default, "`true` or `false`", |value| match value {
            Value::Boolean(boolean) => Ok(*boolean),
            _ => Err(Refused::Kind),
        })
    }

    /// An integer within a range.
    pub fn integer(
        &self,
        key: &str,
        default: usize,
        range: impl RangeBounds<usize>,
    ) -> Result<usize, ConfigError> {
        self.or(key, default, &integers_in_words(&range), |value| as_integer(value, &range))
    }

    /// An integer within a range; it may be absent.
    pub fn optional_integer(
        &self,
        key: &str,
        range: impl RangeBounds<usize>,
    ) -> Result<Option<usize>, ConfigError> {
        self.read(key, &integers_in_words(&range), |value| as_integer(value, &range))
    }

    /// An integer of up to 64 bits, such as a seed.
    pub fn unsigned(&self, key: &str, default: u64) -> Result<u64, ConfigError> {
        self.or(key, default, ANY_UNSIGNED, as_unsigned)
    }

    /// A number within a range; an integer is a number too.
    pub fn number(&self, key: &str, default: f64, range: impl RangeBounds<f64>) -> Result<f64, ConfigError> {
        self.or(key, default, &numbers_in_words(&range), |value| as_number(value, &range))
    }

    /// A number within a range; it may be absent.
    pub fn optional_number(
        &self,
        key: &str,
        range: impl RangeBounds<f64>,
    ) -> Result<Option<f64>, ConfigError> {
        self.read(key, &numbers_in_words(&range), |value| as_number(value, &range))
    }

    /// A list of integers, each at least 0.
    pub fn integers(&self, key: &str, default: &[usize]) -> Result<Vec<usize>, ConfigError> {
        let item = |value: &Value| as_integer(value, &(..));
        self.or(key, default.to_vec(), "a list of integers of at least 0", |value| as_list(value, item))
    }

    /// A list of numbers.
    pub fn numbers(&self, key: &str, default: &[f64]) -> Result<Vec<f64>, ConfigError> {
        let item = |value: &Value| as_number(value, &(..));
        self.or(key, default.to_vec(), "a list of numbers", |value| as_list(value, item))
    }

    /// A list of strings.
    pub fn strings(&self, key: &str, default: &[&str]) -> Result<Vec<String>, ConfigError> {
        let default = default.iter().map(|item| (*item).to_owned()).collect();
        self.or(key, default, "a list of strings, as in `[\"a\", \"b\"]`", |value| as_list(value, as_string))
    }

    /// A size such as `"24GiB"`, or an integer that counts bytes; it may be absent.
    pub fn bytes(&self, key: &str) -> Result<Option<Bytes>, ConfigError> {
        self.read(key, A_SIZE, as_bytes)
    }

    /// A size such as `"24GiB"`, or an integer that counts bytes.
    pub(crate) fn bytes_or(&self, key: &str, default: Bytes) -> Result<Bytes, ConfigError> {
        self.or(key, default, A_SIZE, as_bytes)
    }

    /// The error for a check of the reader's own. It names the value of `key` and its origin.
    pub fn invalid(&self, key: &str, expected: impl Display) -> ConfigError {
        match self.ledger.setting(key) {
            Some(setting) => {
                ConfigError::Invalid { setting: Box::new(setting), expected: expected.to_string() }
            }
            None => ConfigError::Missing { key: self.ledger.full(key), expected: expected.to_string() },
        }
    }

    /// The error for a name that the reader does not know; its hint is the nearest of `allowed`.
    pub fn not_allowed<'a>(&self, key: &str, allowed: impl IntoIterator<Item = &'a str>) -> ConfigError {
        let allowed: Vec<_> = allowed.into_iter().map(str::to_owned).collect();
        match self.ledger.setting(key) {
            Some(setting) => ConfigError::NotAllowed { setting: Box::new(setting), allowed },
            None => ConfigError::Missing { key: self.ledger.full(key), expected: one_of(&allowed) },
        }
    }

    /// Notes that a key has no effect beside the other settings or the data, `because` of what. Where the key is given
    /// another value than its default, training warns of it: no value is ignored in silence.
    ///
    /// ```
    /// use oomph_config::Section;
    ///
    /// let data = Section::from_toml("data", "workers = 0\nprefetch = 8")?;
    /// if data.integer("workers", 4, 0..)? == 0 {
    ///     data.has_no_effect("prefetch", "without workers no batch is loaded ahead");
    /// }
    /// # Ok::<(), oomph_config::ConfigError>(())
    /// ```
    pub fn has_no_effect(&self, key: &str, because: impl Into<String>) {
        self.ledger.note_idle(key, because.into());
    }

    /// The error for a value that a later version will support.
    pub(crate) fn not_yet(&self, key: &str, supported: &'static str) -> ConfigError {
        match self.ledger.setting(key) {
            Some(setting) => ConfigError::NotYetSupported { setting: Box::new(setting), supported },
            None => ConfigError::Missing { key: self.ledger.full(key), expected: supported.to_owned() },
        }
    }

    /// Reads a key with a default.
    pub(crate) fn or<T: Clone + Into<Value>>(
        &self,
        key: &str,
        default: T,
        expected: &str,
        convert: impl FnOnce(&Value) -> Result<T, Refused>,
    ) -> Result<T, ConfigError> {
        self.ledger.record_default(key, default.clone().into());
        Ok(match self.read(key, expected, convert)? {
            Some(value) => value,
            None => {
                self.ledger.record(key, expected, Some(default.clone().into()), Origin::Default);
                default
            }
        })
    }

    /// Reads a key that may be absent. `expected` describes it in messages, `convert` gives the meaning of its value.
    pub(crate) fn read<T: Clone + Into<Value>>(
        &self,
        key: &str,
        expected: &str,
        convert: impl FnOnce(&Value) -> Result<T, Refused>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(setting) = self.ledger.given(key).or_else(|| self.ledger.assumed.get(key)) else {
            self.ledger.record(key, expected, None, Origin::Default);
            return Ok(None);
        };
        let converted = convert(&setting.value);
        let resolved =
            converted.as_ref().map_or_else(|_| setting.value.clone(), |value| value.clone().into());
        self.ledger.record(key, expected, Some(resolved), setting.origin.clone());
        let (setting, expected) = (Box::new(setting), expected.to_owned());
        converted.map(Some).map_err(|refused| match refused {
            Refused::Kind => ConfigError::WrongKind { setting, expected },
            Refused::Value => ConfigError::Invalid { setting, expected },
            Refused::Rounded(rounded) => {
                let expected = format!("{expected}, in 32 bits too, where it is {rounded}");
                ConfigError::Invalid { setting, expected }
            }
        })
    }
}

/// The name of `value` in a table of names; empty for a value without one.
pub(crate) fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, known)| known == value).map_or("", |(name, _)| name)
}

pub(crate) fn as_string(value: &Value) -> Result<String, Refused> {
    match value {
        Value::String(text) => Ok(text.clone()),
        _ => Err(Refused::Kind),
    }
}

pub(crate) fn as_integer(value: &Value, range: &impl RangeBounds<usize>) -> Result<usize, Refused> {
    match value {
        Value::Integer(integer) => {
            usize::try_from(*integer).ok().filter(|integer| range.contains(integer)).ok_or(Refused::Value)
        }
        _ => Err(Refused::Kind),
    }
}

/// The values that [`as_unsigned`] takes, in words.
pub(crate) const ANY_UNSIGNED: &str = "an integer from 0 to 2^64 - 1";

pub(crate) fn as_unsigned(value: &Value) -> Result<u64, Refused> {
    match value {
        Value::Integer(integer) => u64::try_from(*integer).map_err(|_| Refused::Value),
        _ => Err(Refused::Kind),
    }
}

pub(crate) fn as_number(value: &Value, range: &impl RangeBounds<f64>) -> Result<f64, Refused> {
    let number = match value {
        Value::Number(number) => *number,
        Value::Integer(integer) => *integer as f64,
        _ => return Err(Refused::Kind),
    };
    let rounded = number as f32;
    match () {
        () if !range.contains(&number) => Err(Refused::Value),
        // A share of 0.99999999999 would be 1, and 1e-50 would be 0.
        () if !rounded.is_finite() || !range.contains(&f64::from(rounded)) => Err(Refused::Rounded(rounded)),
        () => Ok(number),
    }
}

/// The values that [`as_bytes`] takes, in words.
const A_SIZE: &str = "a size such as `512MiB` or `24GiB`";

fn as_bytes(value: &Value) -> Result<Bytes, Refused> {
    match value {
        Value::String(text) => text.parse().map_err(|_| Refused::Value),
        Value::Integer(count) => u64::try_from(*count).map(Bytes::new).map_err(|_| Refused::Value),
        _ => Err(Refused::Kind),
    }
}

pub(crate) fn as_list<T>(
    value: &Value,
    item: impl Fn(&Value) -> Result<T, Refused>,
) -> Result<Vec<T>, Refused> {
    match value {
        Value::List(values) => values.iter().map(item).collect(),
        _ => Err(Refused::Kind),
    }
}

/// A list of at least one string, or a string with commas between the items.
pub(crate) fn as_items<T>(
    value: &Value,
    item: impl Fn(&str) -> Result<T, Refused>,
) -> Result<Vec<T>, Refused> {
    match value {
        Value::String(text) => text.split(',').map(item).collect(),
        Value::List(items) if items.is_empty() => Err(Refused::Value),
        list => as_list(list, |value| item(&as_string(value)?)),
    }
}
