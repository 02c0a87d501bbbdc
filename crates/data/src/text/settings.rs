use std::path::PathBuf;

use oomph_config::{ConfigError, Section};
use oomph_core::Bytes;

use super::{Level, homes::Known};
use crate::{OpenSource, download::Remote};

/// Reads the settings of a text to learn to continue: one file, or all `.txt` files of a folder in the order of their
/// names.
///
/// A sample is a piece of the text; its target is, at each step, the token that comes next.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `path` | | a file, plain or as `.gz`, or a folder of `.txt` files, in UTF-8 |
/// | `name` | `none` | `tiny-shakespeare`: says what `download` fetches |
/// | `download` | `false` | fetches the text of that name to `path`, where there is no file |
/// | `level` | `char` | a token is a character, or with `word` what is between spaces; the end of a line is one too |
/// | `steps` | 128 | tokens of a sample |
/// | `held_out` | 0.1 | the share at the end of the text that is held out |
/// | `vocabulary` | 65,536 | the most different tokens there are; the rarer ones are unknown |
/// | `vocabulary_file` | none | takes the vocabulary of this file and not that of the text, whatever `vocabulary` and `min_count` say: weights that `oomph export` wrote, a checkpoint's `source.json`, or a list of tokens in JSON |
/// | `min_count` | 1 | tokens that the training part has less often are unknown |
/// | `carry` | `true` | samples are read in the order of the text, and a recurrent model keeps its state from one to the next; else they are shuffled, and each starts anew |
/// | `max_file_bytes` | `1GiB` | a larger file is refused |
///
/// # Errors
/// A value of the wrong type or out of its range. What is on disk is looked at by
/// [`open`](crate::OpenSource::open).
pub fn text(section: &Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> {
    Ok(Box::new(Settings::read(section)?))
}

/// What [`text`] reads.
pub(super) struct Settings {
    pub(super) path: PathBuf,
    /// What is fetched to `path` where that is not there.
    pub(super) home: Option<Remote>,
    pub(super) level: Level,
    pub(super) steps: usize,
    pub(super) held_out: f64,
    pub(super) vocabulary: usize,
    /// Where the vocabulary is taken from, if not from the text.
    pub(super) vocabulary_file: Option<PathBuf>,
    pub(super) min_count: usize,
    pub(super) carry: bool,
    pub(super) max_file_bytes: Bytes,
}

impl Settings {
    pub(super) fn read(section: &Section) -> Result<Self, ConfigError> {
        let name = section.choice(
            "name",
            "none",
            &[("none", None), ("tiny-shakespeare", Some(Known::TinyShakespeare))],
        )?;
        let download = section.boolean("download", false)?;
        if download && name.is_none() {
            return Err(section.invalid("download", "`false` without `name`, which says what is fetched"));
        }
        let vocabulary_file = section.optional_string("vocabulary_file")?;
        Ok(Self {
            vocabulary_file: vocabulary_file.map(PathBuf::from),
            home: name.filter(|_| download).map(Known::file),
            path: section.required_string("path", "a text file, or a folder of `.txt` files")?.into(),
            level: section.choice("level", "char", &[("char", Level::Char), ("word", Level::Word)])?,
            steps: section.integer("steps", 128, 1..=1_048_576)?,
            held_out: section.number("held_out", 0.1, 0.0..1.0)?,
            vocabulary: section.integer("vocabulary", 65_536, 2..=16_777_216)?,
            min_count: section.integer("min_count", 1, 1..)?,
            carry: section.boolean("carry", true)?,
            max_file_bytes: section.bytes("max_file_bytes")?.unwrap_or(Bytes::mib(1024)),
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
        for settings in
            ["", "level = 'char'", "path = 1", "path = 'x'\nlevel = 'byte'", "path = 'x'\nsteps = 0"]
        {
            assert!(!read(settings), "{settings}");
        }
        assert!(read("path = 'x'\nvocabulary_file = 'weights.safetensors'"));
        for settings in ["held_out = 1.0", "held_out = -0.1", "vocabulary = 1", "min_count = 0", "carry = 1"]
        {
            assert!(!read(&format!("path = 'x'\n{settings}")), "{settings}");
        }
    }
}
