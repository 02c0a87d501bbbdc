use std::path::PathBuf;

use oomph_config::{ConfigError, Section};
use oomph_core::Bytes;
use oomph_tokens::Level;

use super::{TEXT_KEY, corpus::Reading, windows::Windows};
use crate::{
    OpenSource,
    download::Remote,
    place::{DataPath, optional_path},
};

/// Reads the settings of a text for language modelling: one file, or all `.txt`, `.jsonl` and `.parquet` files of a folder in
/// the order of their names.
///
/// A sample is a piece of the text; its target at each step is the next token.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `path` | | a file, plain or as `.gz`, or a folder of `.txt`, `.jsonl` and `.parquet` files, in UTF-8. Each line of a `.jsonl` file is a JSON object |
/// | `name` | `none` | `tiny-shakespeare`: the text that `download` fetches |
/// | `download` | `false` | fetches the text `name` to `path`, if that does not exist |
/// | `level` | `char` | a token is a character, or with `word` a word between spaces; the end of a line is a token too. With `bpe` a token is one of `tokenizer` |
/// | `tokenizer` | none | with `bpe`: a `tokenizer.json` of GPT-2's layout, a checkpoint's `source.json`, or weights that `oomph export` wrote |
/// | `text_key` | `text` | the key of the text in each line of a `.jsonl` file, or the column of a `.parquet` file |
/// | `steps` | 128 | tokens of a sample |
/// | `held_out` | 0.1 | the share at the end of the text that is held out |
/// | `vocabulary` | 65,536 | the largest number of different tokens; rarer ones are unknown. With `bpe` the number of the tokenizer's tokens, for plans without it |
/// | `vocabulary_file` | none | takes the vocabulary from this file instead of the text, and ignores `vocabulary` and `min_count`: weights that `oomph export` wrote, a checkpoint's `source.json`, or a list of tokens in JSON |
/// | `min_count` | 1 | tokens that are rarer in the training part are unknown |
/// | `carry` | `true` | samples are read in the order of the text, and a recurrent model keeps its state from one to the next; `false`: samples are shuffled, and each starts with an empty state |
/// | `windows` | `shifted` | without `carry`, where the samples of a training begin: at the multiples of `steps`, behind an offset that each epoch draws; `fixed`: without an offset |
/// | `max_file_bytes` | `1GiB` | a larger file is refused |
///
/// # Errors
/// A value of the wrong type or out of its range. [`open`](crate::OpenSource::open) checks the files.
pub fn text(section: &Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> {
    Ok(Box::new(TextSettings::read(section)?))
}

/// The file that `data.download` fetches, from the author's repository.
fn tiny_shakespeare() -> Remote {
    Remote::new(
        "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        1_115_394,
        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    )
}

/// What the tokens of a text are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// Those of a vocabulary that the text itself gives.
    Listed(Level),
    /// Those of a tokenizer.
    BytePairs,
}

/// The default of `data.vocabulary`.
const MOST_LISTED: usize = 65_536;

/// The settings that [`text`] reads.
pub(super) struct TextSettings {
    pub(super) path: DataPath,
    /// Whether the text is Tiny Shakespeare.
    pub(super) is_known: bool,
    /// The size of the vocabulary, where the settings tell it.
    pub(super) told_vocabulary: Option<usize>,
    /// The file that is fetched if `path` does not exist.
    pub(super) remote: Option<Remote>,
    pub(super) kind: TokenKind,
    /// The file of the tokenizer, for [`TokenKind::BytePairs`].
    pub(super) tokenizer: Option<PathBuf>,
    pub(super) steps: usize,
    pub(super) held_out: f64,
    /// The most tokens of a listed vocabulary.
    pub(super) vocabulary: usize,
    /// The file of the vocabulary; `None` takes it from the text.
    pub(super) vocabulary_file: Option<PathBuf>,
    pub(super) min_count: usize,
    pub(super) carry: bool,
    pub(super) windows: Windows,
    pub(super) reading: Reading,
}

impl TextSettings {
    pub(super) fn read(section: &Section) -> Result<Self, ConfigError> {
        let is_known = section.choice("name", "none", &[("none", false), ("tiny-shakespeare", true)])?;
        let download = section.boolean("download", false)?;
        if download && !is_known {
            return Err(section.invalid("download", "`false`, or `name` to be set to the text to fetch"));
        }
        let vocabulary_file = section.optional_string("vocabulary_file")?;
        let kind = section.choice(
            "level",
            "char",
            &[
                ("char", TokenKind::Listed(Level::Char)),
                ("word", TokenKind::Listed(Level::Word)),
                ("bpe", TokenKind::BytePairs),
            ],
        )?;
        match kind {
            TokenKind::Listed(_) => {
                section.has_no_effect("tokenizer", "`data.level` is not `bpe`");
            }
            TokenKind::BytePairs => {
                for key in ["vocabulary_file", "min_count"] {
                    section.has_no_effect(key, "`data.tokenizer` has the vocabulary");
                }
            }
        }
        const VOCABULARY: std::ops::RangeInclusive<usize> = 2..=16_777_216;
        let vocabulary = match kind {
            TokenKind::Listed(_) => section.integer("vocabulary", MOST_LISTED, VOCABULARY)?,
            // The tokenizer decides, so checkpoints keep no default.
            TokenKind::BytePairs => {
                section.optional_integer("vocabulary", VOCABULARY)?.unwrap_or(MOST_LISTED)
            }
        };
        let carry = section.boolean("carry", true)?;
        Ok(Self {
            kind,
            tokenizer: optional_path(section, "tokenizer")?,
            vocabulary_file: vocabulary_file.map(PathBuf::from),
            remote: download.then(tiny_shakespeare),
            path: DataPath::read(
                section,
                "a text file, or a folder of `.txt`, `.jsonl` or `.parquet` files",
            )?,
            is_known,
            told_vocabulary: Some(vocabulary).filter(|_| section.contains("vocabulary")),
            steps: section.integer("steps", 128, 1..=1_048_576)?,
            held_out: section.number("held_out", 0.1, 0.0..1.0)?,
            vocabulary,
            min_count: section.integer("min_count", 1, 1..)?,
            carry,
            windows: Windows::read(section, carry)?,
            reading: Reading {
                text_key: section.string("text_key", TEXT_KEY)?,
                max_file_bytes: section.bytes("max_file_bytes")?.unwrap_or(Bytes::mib(1024)),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_without_the_data() {
        let read = |settings: &str| text(&Section::from_toml("data", settings).expect("valid TOML")).is_ok();
        assert!(read("path = 'nowhere'"));
        assert!(read("path = 'nowhere'\nname = 'tiny-shakespeare'\ndownload = true"));
        assert!(!read("path = 'nowhere'\ndownload = true"));
        assert!(read("path = 'x'\nlevel = 'word'\nsteps = 35\nheld_out = 0.2\nmin_count = 3\ncarry = false"));
        for settings in ["path = 1", "path = 'x'\nlevel = 'byte'", "path = 'x'\nsteps = 0"] {
            assert!(!read(settings), "{settings}");
        }
        assert!(read("path = 'x'\nvocabulary_file = 'weights.safetensors'"));
        assert!(read("path = 'x'\nlevel = 'bpe'\ntokenizer = 'tokenizer.json'\ntext_key = 'body'"));
        // A plan needs the size of the vocabulary alone.
        assert!(read("level = 'bpe'\nvocabulary = 50257"));
        for settings in ["held_out = 1.0", "held_out = -0.1", "vocabulary = 1", "min_count = 0", "carry = 1"]
        {
            assert!(!read(&format!("path = 'x'\n{settings}")), "{settings}");
        }
    }
}
