use std::{fmt, path::PathBuf};

use serde::{Serialize, Serializer};

use oomph_core::printable;

use crate::section_names::SPACE;

/// The origin of a value.
///
/// Displayed as users know it: `configs/resnet.toml:7`, `--set`, `--devices`, `default`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No source gives a value: the default holds.
    Default,
    /// A line of a file.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A line of a text in memory, such as a config built into the binary.
    Embedded {
        /// The name of the text.
        name: String,
        /// The line, from 1.
        line: usize,
    },
    /// A line of the config that the config file extends.
    Parent(Box<Origin>),
    /// A key of the file that describes a network, such as the `config.json` of `model.config`. Any other source overrides it.
    Network {
        /// The path of the file.
        path: PathBuf,
        /// The key in that file.
        key: String,
    },
    /// `--set key=value` on the command line.
    Set,
    /// A flag of its own on the command line, such as `--devices`.
    Flag(&'static str),
    /// A value of a search: a parameter of `[tune.space]`. Displayed as `configs/x.toml:12: tune.space`.
    Space {
        /// The key that is searched, such as `optimizer.lr`.
        key: String,
        /// The origin of the parameter.
        parameter: Box<Origin>,
    },
    /// A [`Change`](crate::Change) that the program made. Displayed as the `--set` that a user types for it.
    Change,
}

/// The layers of a configuration, the lowest first: a higher one overrides a lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    Default,
    Network,
    Parent,
    Text,
    Set,
    Flag,
    Point,
    Change,
}

impl Origin {
    pub(crate) fn layer(&self) -> Layer {
        match self {
            Self::Default => Layer::Default,
            Self::Network { .. } => Layer::Network,
            Self::Parent(_) => Layer::Parent,
            Self::File { .. } | Self::Embedded { .. } => Layer::Text,
            Self::Set => Layer::Set,
            Self::Flag(_) => Layer::Flag,
            Self::Space { .. } => Layer::Point,
            Self::Change => Layer::Change,
        }
    }

    /// Whether messages show it as typed on the command line.
    pub(crate) fn is_typed(&self) -> bool {
        matches!(self, Self::Set | Self::Flag(_) | Self::Change)
    }

    /// Whether a parameter of `[tune.space]` gives the value.
    pub(crate) fn is_of_space(&self) -> bool {
        matches!(self, Self::Space { .. })
    }

    /// The place at the start of a message; empty for a default.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Default => String::new(),
            origin => format!("{origin}: "),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.pad("default"),
            Self::File { path, line } => write!(f, "{}:{line}", printable(path.display())),
            Self::Embedded { name, line } => write!(f, "{}:{line}", printable(name)),
            Self::Parent(origin) => origin.fmt(f),
            Self::Network { path, key } => write!(f, "{}: {}", printable(path.display()), printable(key)),
            Self::Set | Self::Change => f.pad("--set"),
            Self::Space { key, parameter } if parameter.is_typed() => {
                write!(f, "{parameter} {SPACE}.{}", printable(key))
            }
            Self::Space { parameter, .. } => write!(f, "{parameter}: {SPACE}"),
            Self::Flag(flag) => f.pad(flag),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
