use std::io;

use super::Level;

/// The largest file of a vocabulary.
pub(super) const MOST_BYTES: u64 = 256 << 20;
/// The most tokens, as for `data.vocabulary`.
pub(super) const MOST_TOKENS: usize = 1 << 24;

/// Why a vocabulary cannot be read from a file.
#[derive(Debug, thiserror::Error)]
pub enum VocabularyProblem {
    /// The system cannot read it.
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is a folder, a pipe or a device.
    #[error("it is not a file")]
    NotAFile,
    /// It has another format.
    #[error("the file is neither JSON nor safetensors")]
    Unknown,
    /// It is larger than any vocabulary.
    #[error("the vocabulary has {0} bytes; expected at most {MOST_BYTES}")]
    TooLarge(u64),
    /// It ends before its header does.
    #[error("the file ends within its header")]
    Truncated,
    /// Its JSON is invalid or has another content.
    #[error("the JSON is not a list of tokens, a `source.json` of a checkpoint or a header of weights: {0}")]
    Json(serde_json::Error),
    /// Weights without a record of their source.
    #[error("the weights do not list their tokens; weights from `oomph export` do")]
    Silent,
    /// A record of another kind of data.
    #[error("its model was not trained on text")]
    NotOfText,
    /// Its tokens are of another kind.
    #[error("its tokens are {found}s, but `data.level` asks for {level}s")]
    OtherLevel {
        /// The kind in the file.
        found: Level,
        /// The kind of `data.level`.
        level: Level,
    },
    /// It has too few or too many tokens.
    #[error("it has {0} tokens; expected 2 to {MOST_TOKENS}")]
    Count(usize),
    /// A token has two indices.
    #[error("it has the token {0:?} twice")]
    Twice(String),
}
