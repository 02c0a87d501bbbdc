//! What a file or folder probably holds, and the settings of `[data]` that read it.
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("story.txt"), "Once upon a time".repeat(100))?;
//! let detected = oomph_data::detect::detect(folder.path())?;
//! assert_eq!((detected.source, detected.what.as_str()), ("text", "1 text file"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod idx_files;
mod photos;
mod tables;
mod texts;

use std::{
    fs,
    path::{Path, PathBuf},
};

use oomph_config::Value;

use crate::{DataError, text::documents::ENDINGS};

/// The kind of data at a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Detected {
    /// The value of `data.source`.
    pub source: &'static str,
    /// What was found, as a noun phrase.
    pub what: String,
    /// The other keys of `[data]` with their values.
    pub settings: Vec<DetectedSetting>,
}

/// A key of `[data]` that reads the data.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectedSetting {
    /// The key, without its section.
    pub key: &'static str,
    /// Its value.
    pub value: Value,
    /// Why it has this value; empty where that is plain.
    pub because: String,
}

impl Detected {
    /// Data of a source at `path`.
    fn at(source: &'static str, what: impl Into<String>, path: &Path) -> Self {
        Self { source, what: what.into(), settings: Vec::new() }.with("path", text(path), "")
    }

    /// The same with one more setting.
    fn with(mut self, key: &'static str, value: impl Into<Value>, because: impl Into<String>) -> Self {
        self.settings.push(DetectedSetting { key, value: value.into(), because: because.into() });
        self
    }
}

/// Looks at a file or folder: IDX files, CIFAR-10's binary files, a table of labels, class folders of images, a CSV file with
/// numbers, texts; the first of these that is there. It reads names and the beginnings of files; opening the source checks the
/// rest.
///
/// # Errors
/// A path that does not exist or cannot be read, and one that holds nothing of these.
pub fn detect(path: &Path) -> Result<Detected, DataError> {
    let metadata = fs::metadata(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => DataError::NothingThere { path: path.to_owned() },
        _ => DataError::Io { path: path.to_owned(), source },
    })?;
    let found = match metadata.is_dir() {
        true => in_folder(path)?,
        false if has_ending(path, &["csv", "tsv"]) => tables::detect(path)?,
        false if has_ending(path, &ENDINGS) => Some(texts::of_file(path)?),
        false => None,
    };
    found.ok_or_else(|| DataError::NothingDetected { path: path.to_owned() })
}

fn in_folder(folder: &Path) -> Result<Option<Detected>, DataError> {
    if let Some(found) = idx_files::detect(folder)? {
        return Ok(Some(found));
    }
    if let Some(found) = cifar10(folder) {
        return Ok(Some(found));
    }
    let files = files(folder)?;
    let csv: Vec<&PathBuf> = files.iter().filter(|path| has_ending(path, &["csv", "tsv"])).collect();
    for table in &csv {
        if let Some(found) = tables::labels(table)? {
            return Ok(Some(found));
        }
    }
    if let Some(found) = photos::detect(folder)? {
        return Ok(Some(found));
    }
    if let [table] = csv[..]
        && let Some(found) = tables::series(table)?
    {
        return Ok(Some(found));
    }
    texts::in_folder(folder, &files)
}

/// CIFAR-10's binary files, in the folder or in the one that its archive holds.
fn cifar10(folder: &Path) -> Option<Detected> {
    let has_files = ["", "cifar-10-batches-bin"].iter().any(|within| {
        let folder = folder.join(within);
        folder.join("data_batch_1.bin").is_file() && folder.join("test_batch.bin").is_file()
    });
    has_files.then(|| Detected::at("cifar10", "the binary files of CIFAR-10", folder))
}

/// The visible files of a folder, in order of name.
fn files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let entries = crate::folder::sorted_entries(folder)?;
    let visible = entries.into_iter().filter(|(name, _)| !name.as_encoded_bytes().starts_with(b"."));
    Ok(visible.map(|(name, _)| folder.join(name)).filter(|path| path.is_file()).collect())
}

/// Whether a file has one of these endings, possibly before `.gz`.
pub(crate) fn has_ending(path: &Path, endings: &[&str]) -> bool {
    let is_gz = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
    let plain = if is_gz { path.with_extension("") } else { path.to_owned() };
    plain.extension().is_some_and(|ending| endings.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

/// A path as a value of a configuration.
fn text(path: &Path) -> Value {
    Value::from(path.to_string_lossy().into_owned())
}
