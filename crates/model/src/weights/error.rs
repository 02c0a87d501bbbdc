use std::{fmt, io, path::PathBuf};

use super::shown::names;

/// Why weights cannot be read from a file, or do not fit a model.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The operating system reported an error.
    #[error("cannot read the weights `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A folder has no file of weights.
    #[error("there are no weights in the folder `{}`: expected `model.safetensors`", folder.display())]
    NoFile {
        /// The folder.
        folder: PathBuf,
    },
    /// Some of the files with the weights of a folder are missing.
    #[error("the weights in the folder `{}` are in {count} files, and {found} are there", folder.display())]
    Incomplete {
        /// The folder.
        folder: PathBuf,
        /// Files that are there.
        found: usize,
        /// All of them, by their names.
        count: usize,
    },
    /// The file holds no weights, or is damaged.
    #[error("the weights `{}` cannot be read: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The defect.
        problem: FormatError,
    },
    /// The tensors of the file do not match the model.
    #[error("the weights `{}` do not fit the model `{model}`: {mismatch}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// The model's name.
        model: String,
        /// The mismatches.
        mismatch: Box<Mismatch>,
    },
    /// A weight is infinite or NaN.
    #[error("`{name}` in the weights `{}` has values that are infinite or not a number", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// The weights are for another vocabulary.
    #[error("the weights `{}` are for other tokens than the text has: {difference}", path.display())]
    Tokens {
        /// The file.
        path: PathBuf,
        /// The first token that differs, or the tokenizers, in words.
        difference: String,
        /// The key that takes the tokens from the weights.
        key: &'static str,
    },
    /// The weights are of a network with another setting, which the shapes of parameters do not show.
    #[error("the weights `{}` are of a network with `{key}` = {found}, and the model has {set}", path.display())]
    OtherSetting {
        /// The file.
        path: PathBuf,
        /// The key of the setting.
        key: String,
        /// Its value in the network of the weights.
        found: String,
        /// Its value in the model.
        set: String,
    },
    /// Two tensors of the file that are one parameter of the model differ.
    #[error(
        "the model ties `{first}` and `{second}`, but they differ in the weights `{}`",
        path.display()
    )]
    NotTied {
        /// The file.
        path: PathBuf,
        /// One tensor.
        first: String,
        /// The other tensor.
        second: String,
    },
    /// The file has no fitting head, and the command needs one.
    #[error(
        "the weights `{}` have no head that fits the model: {} would stay randomly initialised, and this command does not train",
        path.display(),
        names(.fresh)
    )]
    NoHead {
        /// The file.
        path: PathBuf,
        /// The missing parameters.
        fresh: Vec<String>,
    },
}

impl WeightsError {
    /// A remedy for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("`model.weights` is a path from where the command is run; nothing is downloaded".into())
            }
            Self::Io { .. } | Self::NotFinite { .. } => None,
            Self::NoFile { .. } => Some("name the file itself".into()),
            Self::Incomplete { .. } => Some("copy or download the folder again: it is not whole".into()),
            Self::Format { problem, .. } => problem.hint().map(str::to_owned),
            Self::Mismatch { model, .. } if model.starts_with("lstm") || model.starts_with("gru") => Some(
                "`model.name`, `model.hidden`, `model.layers`, `model.embedding` and `model.tied` must be those of the \
                 network that the weights are of"
                    .into(),
            ),
            Self::Mismatch { .. } => Some(
                "`model.name` and its settings must be those of the network that the weights are of".into(),
            ),
            Self::Tokens { path, key, .. } => Some(format!(
                "`--set {key}={}` reads any text with the tokens that the weights know",
                path.display()
            )),
            Self::OtherSetting { key, found, .. } => Some(format!("`--set {key}={found}`")),
            Self::NotTied { .. } => Some("set `model.tied=false`".into()),
            Self::NoHead { .. } => {
                Some("train it first, or take data with the classes that the weights know".into())
            }
        }
    }
}

/// The tensors of a file that do not fit a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatch {
    /// The names in the file and the names in the model, if none is in both.
    pub strangers: Option<(Vec<String>, Vec<String>)>,
    /// Tensors that the model needs and the file does not have, by the file's names.
    pub missing: Vec<String>,
    /// Tensors of the file that the model does not know.
    pub unexpected: Vec<String>,
    /// Tensors of another shape or kind, each in words.
    pub different: Vec<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((theirs, ours)) = &self.strangers {
            if theirs.is_empty() {
                return f.write_str("there is no tensor in it");
            }
            return write!(f, "it has {}, and the model needs {}", names(theirs), names(ours));
        }
        let named =
            |what: &str, list: &[String]| (!list.is_empty()).then(|| format!("{what}: {}", names(list)));
        const MOST: usize = 8;
        let mut different = self.different.iter().take(MOST).cloned().collect::<Vec<_>>();
        let more = self.different.len().saturating_sub(MOST);
        different.extend((more > 0).then(|| format!("{more} more are of another shape or kind")));
        let parts = [named("missing", &self.missing), named("unexpected", &self.unexpected)];
        write!(f, "{}", parts.into_iter().flatten().chain(different).collect::<Vec<_>>().join("; "))
    }
}

impl Mismatch {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Why the bytes of a file of weights cannot be read. Offsets are from the start of the file.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The file is empty.
    #[error("it is empty")]
    Empty,
    /// The file has another format.
    #[error("it is neither safetensors nor a file that `torch.save` wrote")]
    Unknown,
    /// PyTorch's format of 2016.
    #[error("it is a tar archive, which PyTorch wrote before version 0.1.10")]
    Tar,
    /// A pickle, but not by `torch.save`.
    #[error("it is a pickle that `torch.save` did not write: no tensor's values are in it")]
    BarePickle,
    /// Numbers with the highest byte first.
    #[error("it was written on a machine that has the highest byte of a number first")]
    BigEndian,
    /// The file ends too early.
    #[error("byte {at}: it ends within its {what}")]
    Truncated {
        /// The offset.
        at: u64,
        /// The truncated part.
        what: &'static str,
    },
    /// Bytes violate the format.
    #[error("byte {at}: expected {expected}")]
    Unexpected {
        /// The offset.
        at: u64,
        /// The expected content.
        expected: &'static str,
    },
    /// The header of a safetensors file is invalid.
    #[error("its header is not a safetensors header: {source}")]
    Header {
        /// The defect.
        source: serde_json::Error,
    },
    /// The metadata of a safetensors file is invalid.
    #[error("its `{key}` cannot be read: {source}")]
    Note {
        /// The key.
        key: &'static str,
        /// The defect.
        source: serde_json::Error,
    },
    /// A pickle names a Python object that no state dict needs.
    #[error("byte {at}: it asks for `{name}`, which is no part of a state dict; nothing of it was run")]
    Forbidden {
        /// The offset.
        at: u64,
        /// The name.
        name: String,
    },
    /// An instruction of a pickle that `torch.save` does not write for a state dict.
    #[error("byte {at}: the pickle's instruction 0x{opcode:02x} is not one that a state dict needs")]
    Instruction {
        /// The offset.
        at: u64,
        /// The opcode.
        opcode: u8,
    },
    /// The pickle exceeds a limit that any state dict keeps.
    #[error("byte {at}: more than {most} {what}")]
    TooMany {
        /// The offset.
        at: u64,
        /// The limit.
        most: usize,
        /// The limited quantity.
        what: &'static str,
    },
    /// A part of the archive is compressed or encrypted, which `torch.save` does not do.
    #[error("`{entry}` in it is compressed or encrypted")]
    Compressed {
        /// The part.
        entry: String,
    },
    /// A part of the archive is missing.
    #[error("`{entry}` is not in it")]
    NoEntry {
        /// The part.
        entry: String,
    },
    /// A tensor reaches beyond its storage.
    #[error("the tensor `{name}` is larger than what is stored for it")]
    Beyond {
        /// The tensor.
        name: String,
    },
    /// The pickle has no dictionary of tensors.
    #[error("there is no state dict in it: {}", what_there_is(.keys))]
    NoTensors {
        /// The keys that it has instead.
        keys: Vec<String>,
    },
    /// The operating system reported an error.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl FormatError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Forbidden { .. } | Self::Instruction { .. } | Self::NoTensors { .. } | Self::BarePickle => {
                Some(
                    "save the weights alone, in Python: `torch.save(model.state_dict(), \"weights.pth\")`, or \
                 `safetensors.torch.save_file(model.state_dict(), \"weights.safetensors\")`",
                )
            }
            Self::Tar | Self::BigEndian | Self::Compressed { .. } => {
                Some("load it with PyTorch and save it again with `torch.save`")
            }
            Self::Truncated { .. } | Self::Beyond { .. } => {
                Some("copy or download the file again: it is not whole")
            }
            _ => None,
        }
    }
}

fn what_there_is(keys: &[String]) -> String {
    match keys {
        [] => "it is no dictionary with names".into(),
        keys => format!("its keys are {}", names(keys)),
    }
}
