//! Values of a configuration and their texts.

use std::fmt;

use oomph_core::{Bytes, is_unprintable, printable};
use serde::{Serialize, Serializer};
use toml::de::DeValue;

/// A value of a configuration. Displayed as TOML writes it, on one line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A text.
    String(String),
    /// An integer from −2^63 to 2^64 − 1.
    Integer(i128),
    /// A finite number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// A list of values.
    List(Vec<Value>),
    /// A table of values by name, in the order given. Only entries of `[tune.space]` are tables.
    Table(#[serde(serialize_with = "as_map")] Vec<(String, Value)>),
}

fn as_map<S: Serializer>(entries: &[(String, Value)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(name, value)| (name, value)))
}

/// The characters of a long text that an error message shows.
const SHOWN_CHARS: usize = 80;

impl Value {
    /// The value as messages show it: shortened, a string without quotes.
    pub fn shown(&self) -> String {
        match self {
            Self::String(text) if !text.is_empty() => shortened(text),
            other => shortened(&other.to_string()),
        }
    }

    /// Whether it is an integer.
    pub(crate) fn is_integer(&self) -> bool {
        matches!(self, Self::Integer(_))
    }

    /// The value as typed on the command line: a string has quotes only where it would be another value without them.
    pub fn typed(&self) -> String {
        match self {
            Self::String(text) if DeValue::parse(text).is_ok() => shortened(&self.to_string()),
            other => other.shown(),
        }
    }

    /// The value of a text as `--set` reads it: a boolean, a number or a list as in TOML, a string in quotes or without.
    pub fn of_text(text: &str) -> Self {
        let parsed = DeValue::parse(text).ok();
        parsed.and_then(|value| Self::of_toml(value.get_ref())).unwrap_or_else(|| Self::from(text))
    }

    /// `None` for dates, tables, and numbers beyond those of a configuration.
    fn of_toml(value: &DeValue<'_>) -> Option<Self> {
        Some(match value {
            DeValue::String(text) => Self::String(text.to_string()),
            DeValue::Boolean(boolean) => Self::Boolean(*boolean),
            DeValue::Integer(integer) => {
                Self::Integer(i128::from_str_radix(integer.as_str(), integer.radix()).ok()?)
            }
            DeValue::Float(float) => Self::Number(float.as_str().parse().ok()?),
            DeValue::Array(items) => {
                Self::List(items.iter().map(|item| Self::of_toml(item.get_ref())).collect::<Option<_>>()?)
            }
            DeValue::Datetime(_) | DeValue::Table(_) => return None,
        })
    }

    /// The value with its kind in words, as in ``the string `"abc"` ``.
    pub(crate) fn described(&self) -> String {
        let kind = match self {
            Self::String(_) => "string",
            Self::Integer(_) => "integer",
            Self::Number(_) => "number",
            Self::Boolean(_) => "boolean",
            Self::List(_) => "list",
            Self::Table(_) => "table",
        };
        format!("the {kind} `{}`", shortened(&self.to_string()))
    }

    /// Whether two values are the same setting: 1 equals 1.0.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Integer(integer), Self::Number(number))
            | (Self::Number(number), Self::Integer(integer)) => *integer as f64 == *number,
            (Self::List(these), Self::List(those)) => {
                these.len() == those.len() && these.iter().zip(those).all(|(this, that)| this.same(that))
            }
            (Self::Table(these), Self::Table(those)) => {
                let named = |name: &str| those.iter().find(|(other, _)| other == name);
                let is_there =
                    |(name, this): &(String, Self)| named(name).is_some_and(|(_, that)| this.same(that));
                these.len() == those.len() && these.iter().all(is_there)
            }
            (this, that) => this == that,
        }
    }
}

/// A text that a user typed, printable and shortened.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", printable(&text[..end])),
        None => printable(text),
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(text) => write_quoted(f, text),
            Self::Integer(integer) => write!(f, "{integer}"),
            // Debug keeps the point of an integral number (`1.0`) and writes 0.00000001 as `1e-8`.
            Self::Number(number) => write!(f, "{number:?}"),
            Self::Boolean(boolean) => write!(f, "{boolean}"),
            Self::List(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{value}")?;
                }
                f.write_str("]")
            }
            Self::Table(entries) => {
                f.write_str("{")?;
                for (index, (name, value)) in entries.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma} {name} = {value}")?;
                }
                f.write_str(if entries.is_empty() { "}" } else { " }" })
            }
        }
    }
}

/// Writes a basic string of TOML.
fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for character in text.chars() {
        match character {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            control if is_unprintable(control) => write!(f, "\\u{:04X}", u32::from(control))?,
            plain => write!(f, "{plain}")?,
        }
    }
    f.write_str("\"")
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<usize> for Value {
    fn from(integer: usize) -> Self {
        // A usize has at most 64 bits on every machine Rust supports.
        Self::Integer(integer as i128)
    }
}

impl From<u64> for Value {
    fn from(integer: u64) -> Self {
        Self::Integer(i128::from(integer))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(boolean: bool) -> Self {
        Self::Boolean(boolean)
    }
}

impl From<Bytes> for Value {
    fn from(bytes: Bytes) -> Self {
        Self::from(bytes.get())
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}
