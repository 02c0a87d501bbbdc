use std::{io, path::PathBuf};

use crate::{Level, Vocabulary};

/// A tokenizer that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read a tokenizer from `{}`: {problem}", path.display())]
pub struct TokenizerError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub problem: TokenizerProblem,
}

/// Why a tokenizer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerProblem {
    /// It is no JSON, or JSON of another content.
    #[error("the JSON is not a `tokenizer.json`: {0}")]
    Json(#[from] serde_json::Error),
    /// A part has another kind than GPT-2's layout.
    #[error("`{key}` is {found}; expected {expected}, as in GPT-2's layout")]
    Layout {
        /// The key.
        key: &'static str,
        /// Its value, shortened.
        found: String,
        /// The expected value.
        expected: &'static str,
    },
    /// It has too few or too many tokens.
    #[error("it has {0} tokens; expected 256 to {most}", most = Vocabulary::MOST_TOKENS)]
    Count(usize),
    /// The indices of its tokens have a gap.
    #[error("token {token:?} has the index {index}; expected the indices 0 to {}, each once", count - 1)]
    Index {
        /// The token.
        token: String,
        /// Its index.
        index: u32,
        /// The number of tokens.
        count: usize,
    },
    /// No token is a single byte.
    #[error("no token is the byte 0x{0:02x}; expected a token for each byte")]
    NoByte(u8),
    /// A token has characters that stand for no byte.
    #[error(
        "token {token:?} has the character {character:?}, which stands for no byte; expected byte-level tokens"
    )]
    NotBytes {
        /// The token.
        token: String,
        /// The first such character.
        character: char,
    },
    /// A pair whose parts or whole are not in the vocabulary.
    #[error("merge {index} joins {left:?} and {right:?}, but {missing:?} is not in `model.vocab`")]
    Merge {
        /// Its place, from 0.
        index: usize,
        /// The left token.
        left: String,
        /// The right token.
        right: String,
        /// The missing token.
        missing: String,
    },
    /// An added token that text cannot be searched for.
    #[error("the added token {token:?} {problem}")]
    Added {
        /// The token.
        token: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The library refuses what passed all of these checks.
    #[error("the tokenizer cannot be made: {0}")]
    Refused(Box<dyn std::error::Error + Send + Sync>),
}

impl TokenizerError {
    /// The way out.
    pub fn hint(&self) -> &'static str {
        "`oomph tokenizer TEXT --vocabulary 4096` makes such a file from a text; byte-level BPE of other programs is read \
         in GPT-2's layout"
    }
}

/// A file of tokens that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the file of tokens `{}` {problem}", path.display())]
pub struct TokenFileError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub problem: TokenFileProblem,
}

/// Why a file of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileProblem {
    /// The system cannot read it.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// The system cannot write it.
    #[error("cannot be written: {0}")]
    Write(io::Error),
    /// It does not begin as a file of tokens does.
    #[error("is no file of tokens: it begins with other bytes")]
    Magic,
    /// A newer oomph wrote it.
    #[error("has the format version {found}; expected {expected}")]
    Version {
        /// The version in the file.
        found: u32,
        /// The version of this program.
        expected: u32,
    },
    /// Its header was changed.
    #[error("has a damaged header: its checksum differs")]
    Header,
    /// Its size contradicts its header.
    #[error("has {found} bytes; its header announces {expected}")]
    Length {
        /// Its size.
        found: u64,
        /// The announced size.
        expected: u64,
    },
}

impl TokenFileError {
    /// The way out.
    pub fn hint(&self) -> &'static str {
        match self.problem {
            TokenFileProblem::Write(_) => {
                "`XDG_CACHE_HOME` chooses the folder of the cache: name one with free space"
            }
            TokenFileProblem::Read(_) => "look whether this user may read the file",
            _ => "delete the file: the next run encodes the text again",
        }
    }
}

/// Why a vocabulary cannot be read from a file.
#[derive(Debug, thiserror::Error)]
pub enum VocabularyProblem {
    /// The system cannot read it.
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It has another format.
    #[error("the file is neither JSON nor safetensors")]
    Unknown,
    /// It is larger than any vocabulary.
    #[error("the vocabulary has {0} bytes; expected at most {most}", most = Vocabulary::MOST_FILE_BYTES)]
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
    /// A record of data that was not read with a tokenizer.
    #[error("its model was trained without a tokenizer")]
    NoTokenizer,
    /// Its tokens are of another kind.
    #[error("its tokens are {found}s, but `data.level` asks for {level}s")]
    OtherLevel {
        /// The kind in the file.
        found: Level,
        /// The kind of `data.level`.
        level: Level,
    },
    /// It has too few or too many tokens.
    #[error("it has {0} tokens; expected 2 to {most}", most = Vocabulary::MOST_TOKENS)]
    Count(usize),
    /// A token has two indices.
    #[error("it has the token {0:?} twice")]
    Twice(String),
}
