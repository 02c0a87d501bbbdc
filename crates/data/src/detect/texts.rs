use std::path::{Path, PathBuf};

use super::{Detected, has_ending};
use crate::{
    DataError, Level,
    text::{
        TEXT_KEY,
        corpus::{self, Reading},
        documents::ENDINGS,
    },
};

/// The most bytes of a text that are looked at.
const MOST: oomph_core::Bytes = oomph_core::Bytes::mib(1 << 10);

/// A text file.
pub(super) fn of_file(path: &Path) -> Result<Detected, DataError> {
    described(path, "1 text file".to_owned())
}

/// The text files of a folder.
pub(super) fn in_folder(folder: &Path, files: &[PathBuf]) -> Result<Option<Detected>, DataError> {
    let count = files.iter().filter(|path| has_ending(path, &ENDINGS)).count();
    let ending = if count == 1 { "" } else { "s" };
    (count > 0).then(|| described(folder, format!("{count} text file{ending}"))).transpose()
}

/// Windows as long as leave some for the held-out part of a short text.
fn described(path: &Path, what: String) -> Result<Detected, DataError> {
    /// As in `configs/lstm-lm.toml`.
    const STEPS: usize = 64;
    let reading = Reading { text_key: TEXT_KEY.to_owned(), max_file_bytes: MOST };
    let text = corpus::read(&corpus::files(path)?, &reading)?;
    let characters = Level::Char.tokens(&text).take(STEPS * 100).count();
    let steps = (characters / 40).clamp(1, STEPS);
    let found = Detected::at("text", what, path).with(
        "level",
        "char",
        "or \"word\", or \"bpe\" with `data.tokenizer`",
    );
    Ok(found.with("steps", steps, "characters of a sample"))
}
