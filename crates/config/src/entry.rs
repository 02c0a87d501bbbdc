//! The parts of a report about a configuration.

use serde::Serialize;

use crate::{origin::Origin, setting::Setting, value::Value};

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
