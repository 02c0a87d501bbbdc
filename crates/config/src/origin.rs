use std::{fmt, path::PathBuf};

use serde::{Serialize, Serializer};

use oomph_core::printable;

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
    /// `--set key=value` on the command line.
    Set,
    /// A flag of its own on the command line, such as `--devices`.
    Flag(&'static str),
    /// A [`Change`](crate::Change) that the program made. Displayed as the `--set` that a user types for it.
    Change,
}

/// The layers of a configuration, the lowest first: a higher one overrides a lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    Default,
    Text,
    Set,
    Flag,
    Change,
}

impl Origin {
    pub(crate) fn layer(&self) -> Layer {
        match self {
            Self::Default => Layer::Default,
            Self::File { .. } | Self::Embedded { .. } => Layer::Text,
            Self::Set => Layer::Set,
            Self::Flag(_) => Layer::Flag,
            Self::Change => Layer::Change,
        }
    }

    /// Whether messages show it as typed on the command line.
    pub(crate) fn is_typed(&self) -> bool {
        self.layer() >= Layer::Set
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
            Self::Set | Self::Change => f.pad("--set"),
            Self::Flag(flag) => f.pad(flag),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
