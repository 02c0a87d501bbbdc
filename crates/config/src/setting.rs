//! Keys with their values: one setting, and the parts of a report about a configuration.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    origin::{Layer, Origin},
    value::Value,
};

/// A key with its value and origin: the subject of an error message.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The full key, such as `train.batch`.
    pub key: String,
    /// The value.
    pub value: Value,
    /// The origin of the value.
    pub origin: Origin,
    /// The setting of a lower layer, or an earlier one of the same layer, that this one replaces.
    pub replaced: Option<Box<Setting>>,
}

impl Setting {
    /// A setting that replaces none.
    pub(crate) fn new(key: impl Into<String>, value: Value, origin: Origin) -> Self {
        Self { key: key.into(), value, origin, replaced: None }
    }

    /// Puts this setting over those that are given so far.
    pub(crate) fn stack_on(mut self, settings: &mut BTreeMap<String, Self>, key: &str) {
        self.replaced = settings.remove(key).map(Box::new);
        settings.insert(key.to_owned(), self);
    }

    /// The setting in force as of a layer: this one, or the highest that it replaces. `None` where all are of higher layers.
    pub(crate) fn as_of(&self, layer: Layer) -> Option<&Self> {
        std::iter::successors(Some(self), |setting| setting.replaced.as_deref())
            .find(|setting| setting.origin.layer() <= layer)
    }

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
            Origin::File { .. }
            | Origin::Embedded { .. }
            | Origin::Parent(_)
            | Origin::Network { .. }
            | Origin::Space { .. } => {
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
    /// Whether both say the same thing in two ways, as `train.epochs` and `train.steps` do: the higher layer replaces the lower
    /// one, as it does where one key has two values.
    pub is_replaced: bool,
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

/// Keys of sections that decide what is computed, and that decide only where the data lies and how fast it comes.
const OF_THE_MACHINE: [&str; 4] = ["data.path", "data.workers", "data.prefetch", "data.on_corrupt"];
/// Keys of the other sections that decide what is computed.
const OF_MATHEMATICS: [&str; 6] = [
    "train.batch",
    "train.class_weights",
    "train.label_smoothing",
    "train.seed",
    "train.task",
    "memory.precision",
];
/// How the keys of a table of weights by class begin.
const OF_CLASSES: &str = "train.class_weights.";

impl Difference {
    /// Whether the two configurations compute something else in each step. The length of a training is none of it, nor are
    /// settings of memory that keep the mathematics.
    pub fn is_of_mathematics(&self) -> bool {
        let section = self.key.split_once('.').map_or("", |(section, _)| section);
        match section {
            // Weights start a new training, and no resumed one. What the other file says is in the other keys.
            "model" => !["model.weights", "model.config"].contains(&self.key.as_str()),
            "data" => !OF_THE_MACHINE.contains(&self.key.as_str()),
            "optimizer" | "schedule" => true,
            _ => OF_MATHEMATICS.contains(&self.key.as_str()) || self.key.starts_with(OF_CLASSES),
        }
    }

    /// `was X there and is Y now`, for messages.
    pub fn described(&self) -> String {
        let value = |value: &Option<Value>| {
            value.as_ref().map_or("not set".to_owned(), |value| format!("`{}`", value.shown()))
        };
        format!("`{}` was {} there and is {} now", self.key, value(&self.before), value(&self.after))
    }
}
