use std::{io, path::PathBuf};

use oomph_core::Bytes;

/// Why a `config.json` cannot be read or written, or does not agree with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The operating system reported an error.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is too large to be a `config.json`.
    #[error("`{}` is larger than {limit}, too large for a `config.json`", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size read.
        limit: Bytes,
    },
    /// The file is not JSON, or no object.
    #[error("`{}` is not the JSON of a network: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The defect.
        source: serde_json::Error,
    },
    /// The file describes a network that oomph does not have.
    #[error("`{key}` in `{}` is `{found}`; expected {expected}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Its value as JSON.
        found: String,
        /// The values that oomph reads.
        expected: String,
    },
    /// The file describes another network than the configuration.
    #[error("the weights are of another network: {}", differences.join("; "))]
    Differs {
        /// Each difference, in words.
        differences: Vec<String>,
        /// The arguments that agree with the file.
        sets: Vec<String>,
    },
    /// Hugging Face has no model of this name.
    #[error("Hugging Face's layout is known for {}, and not for `{name}`", known.join(" and "))]
    NoModel {
        /// `model.name`.
        name: String,
        /// The names of models with a layout, in backticks.
        known: Vec<String>,
    },
    /// The network has settings that Hugging Face's cannot have.
    #[error("Hugging Face's {title} cannot be this network: {}", settings.join("; "))]
    NotExpressible {
        /// The network at Hugging Face that is nearest.
        title: &'static str,
        /// Each setting, in words.
        settings: Vec<String>,
    },
}

impl HubError {
    /// A remedy for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("name a `config.json`, or the folder that has one; nothing is downloaded".into())
            }
            Self::Differs { sets, .. } if !sets.is_empty() => {
                Some(format!("use the settings of the file: `{}`", sets.join(" ")))
            }
            Self::NotExpressible { .. } | Self::NoModel { .. } => Some(
                "a file without `config.json`, as by `--to model.safetensors`, can have any settings".into(),
            ),
            _ => None,
        }
    }
}
