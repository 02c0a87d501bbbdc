use std::{io, path::PathBuf};

use super::Mismatch;

/// What can be wrong with a file of weights.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The system refused.
    #[error("cannot read the weights `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not a file of weights, or a broken one.
    #[error("the weights `{}` cannot be read: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: FormatError,
    },
    /// Its tensors are not those of the model.
    #[error("the weights `{}` do not fit the model `{model}`: {mismatch}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// The model's name.
        model: String,
        /// What does not fit.
        mismatch: Box<Mismatch>,
    },
    /// A weight is infinite or not a number.
    #[error("`{name}` in the weights `{}` has values that are infinite or not a number", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// The weights are of a model that knows other tokens.
    #[error("the weights `{}` are for other tokens than the text has: {difference}", path.display())]
    Tokens {
        /// The file.
        path: PathBuf,
        /// The first token that differs, in words.
        difference: String,
    },
    /// One parameter of the model is two different ones in the file.
    #[error(
        "the model has `{first}` and `{second}` of the weights `{}` as one, and there they differ",
        path.display()
    )]
    NotTied {
        /// The file.
        path: PathBuf,
        /// A tensor.
        first: String,
        /// Another.
        second: String,
    },
    /// The head is not in the file, and what is asked for needs it.
    #[error(
        "the weights `{}` have no head that fits the model: {} would be left as drawn, and there is no training here",
        path.display(),
        names(.fresh)
    )]
    NoHead {
        /// The file.
        path: PathBuf,
        /// The parameters that it does not have.
        fresh: Vec<String>,
    },
}

impl WeightsError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("`model.weights` is a path from where the command is run; nothing is downloaded".into())
            }
            Self::Io { .. } | Self::NotFinite { .. } => None,
            Self::Format { problem, .. } => problem.hint().map(str::to_owned),
            Self::Mismatch { model, .. } if model.starts_with("lstm") => Some(
                "`model.name`, `model.hidden`, `model.layers`, `model.embedding` and `model.tied` must be those of the \
                 network that the weights are of"
                    .into(),
            ),
            Self::Mismatch { .. } => Some(
                "`model.name` and its settings must be those of the network that the weights are of".into(),
            ),
            Self::Tokens { path, .. } => Some(format!(
                "`--set data.vocabulary_file={}` reads any text with the tokens that the weights know",
                path.display()
            )),
            Self::NotTied { .. } => Some("set `model.tied=false`".into()),
            Self::NoHead { .. } => {
                Some("train it first, or take data with the classes that the weights know".into())
            }
        }
    }
}

/// What is wrong with the bytes of a file of weights. Offsets are from the start of the file.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It has no bytes.
    #[error("it is empty")]
    Empty,
    /// It is something else.
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
    /// It ends too early.
    #[error("byte {at}: it ends here, before its {what} does")]
    Truncated {
        /// Where.
        at: u64,
        /// What is cut off.
        what: &'static str,
    },
    /// Something is not as the format has it.
    #[error("byte {at}: expected {expected}")]
    Unexpected {
        /// Where.
        at: u64,
        /// What should be there.
        expected: &'static str,
    },
    /// The header of a safetensors file is not one.
    #[error("its header is no header of safetensors: {source}")]
    Header {
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// What it says beside its tensors is not what it should be.
    #[error("its `{key}` cannot be read: {source}")]
    Note {
        /// Under which key.
        key: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A pickle asks for something that no state dict is made of.
    #[error("byte {at}: it asks for `{name}`, which is no part of a state dict; nothing of it was run")]
    Forbidden {
        /// Where.
        at: u64,
        /// What it asks for.
        name: String,
    },
    /// An instruction of a pickle that `torch.save` does not write for a state dict.
    #[error("byte {at}: the pickle's instruction 0x{opcode:02x} is not one that a state dict needs")]
    Instruction {
        /// Where.
        at: u64,
        /// Its number.
        opcode: u8,
    },
    /// More than any state dict has.
    #[error("byte {at}: more than {most} {what}")]
    TooMany {
        /// Where.
        at: u64,
        /// The most that is read.
        most: usize,
        /// Of what.
        what: &'static str,
    },
    /// A part of the archive is compressed or encrypted, which `torch.save` does not do.
    #[error("`{entry}` in it is compressed or encrypted")]
    Compressed {
        /// The part.
        entry: String,
    },
    /// A part of the archive is not there.
    #[error("`{entry}` is not in it")]
    NoEntry {
        /// The part.
        entry: String,
    },
    /// A tensor reaches beyond what is stored for it.
    #[error("the tensor `{name}` is larger than what is stored for it")]
    Beyond {
        /// The tensor.
        name: String,
    },
    /// It has no dictionary of tensors.
    #[error("there is no state dict in it: {}", what_there_is(.keys))]
    NoTensors {
        /// What it has instead.
        keys: Vec<String>,
    },
    /// The system refused.
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

/// A name from a file as messages show it: one line, and not a long one.
pub(crate) fn shown(name: &str) -> String {
    const MOST: usize = 80;
    let mut shown = String::new();
    for character in name.chars().take(MOST) {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    if name.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}

/// The first few names, and how many more there are.
pub(crate) fn names<T: AsRef<str>>(names: &[T]) -> String {
    const MOST: usize = 8;
    let quoted: Vec<_> = names.iter().take(MOST).map(|name| format!("`{}`", shown(name.as_ref()))).collect();
    match names.len().saturating_sub(MOST) {
        0 => quoted.join(", "),
        more => format!("{} and {more} more", quoted.join(", ")),
    }
}
