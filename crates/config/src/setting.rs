//! Keys with their values: one setting, and the parts of a report about a configuration.

use serde::Serialize;

use crate::{origin::Origin, value::Value};

/// A key with its value and origin: the subject of an error message.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The full key, such as `train.batch`.
    pub key: String,
    /// The value.
    pub value: Value,
    /// The origin of the value.
    pub origin: Origin,
}

impl Setting {
    /// The start of a message, before the error: ``configs/x.toml:7: `train.batch` is `0`; `` or
    /// `--set train.batch=0: `.
    pub(crate) fn head(&self) -> String {
        self.head_with(&format!("`{}`", self.value.shown()))
    }

    /// The same, with the kind of the value too.
    pub(crate) fn head_with_kind(&self) -> String {
        self.head_with(&self.value.described())
    }

    fn head_with(&self, value: &str) -> String {
        match &self.origin {
            Origin::File { .. } | Origin::Embedded { .. } | Origin::Space { .. } => {
                format!("{}: `{}` is {value}; ", self.origin, self.key)
            }
            Origin::Default => format!("`{}` is {value} by default; ", self.key),
            Origin::Set | Origin::Flag(_) | Origin::Change => format!("{}: ", self.as_typed()),
        }
    }

    /// The place alone, for messages without a value: `configs/x.toml:7: ` or `--set train.bacth=0: `.
    pub(crate) fn place(&self) -> String {
        if self.origin.is_typed() { format!("{}: ", self.as_typed()) } else { self.origin.place() }
    }

    /// The setting named in passing: `` `train.batch` is `32` (configs/x.toml:3) ``.
    pub(crate) fn mention(&self) -> String {
        format!("`{}` is `{}` ({})", self.key, self.value.shown(), self.origin)
    }

    /// The setting as typed on the command line.
    fn as_typed(&self) -> String {
        let value = self.value.typed();
        match self.origin {
            Origin::Flag(flag) => format!("{flag} {value}"),
            _ => format!("--set {}={value}", self.key),
        }
    }
}

/// One key of a resolved configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The full key, such as `train.batch`.
    #[serde(skip)]
    pub key: String,
    /// The value; `None` for an optional key that is absent.
    pub value: Option<Value>,
    /// The origin of the value.
    pub origin: Origin,
    /// The values that the key takes, in words. `None` until a reader asks for the key.
    pub expected: Option<String>,
}

/// A key whose value a choice in a higher layer made void.
#[derive(Clone, Debug, PartialEq)]
pub struct SetAside {
    /// The key with its value.
    pub setting: Setting,
    /// The choice that makes it void.
    pub by: Setting,
}

/// A key whose value has no effect beside the other settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Idle {
    /// The key with its value.
    pub setting: Setting,
    /// Why it has no effect, as part of a sentence.
    pub because: String,
}

/// A key whose value differs between two configurations.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The full key.
    pub key: String,
    /// The earlier value, if any.
    pub before: Option<Value>,
    /// The later value, if any.
    pub after: Option<Value>,
}
