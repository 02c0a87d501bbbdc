use std::path::PathBuf;

use oomph_config::{ConfigError, Section};
use oomph_core::Bytes;

use crate::{Columns, OnCorrupt, OpenSource, options::max_file_bytes, place::required_path};

/// Reads the settings of a time series in a CSV file, for regression: the input is a window of rows, the target is a later
/// row.
///
/// The first row of the file names the columns; the other rows are in the order of time. The end of the series is held
/// out. No window or target crosses the border, and normalisation uses the training part alone.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `path` | | the file; `.csv`, plain or as `.gz` |
/// | `columns` | all | the input columns |
/// | `targets` | `columns` | the target columns |
/// | `steps` | 32 | rows of a window |
/// | `horizon` | 1 | rows from the last row of the window to the target |
/// | `held_out` | 0.2 | the share of rows at the end that is held out |
/// | `normalize` | `auto` | each column by mean and standard deviation of its training rows; `none`: not at all |
/// | `delimiter` | `,` | the separator of fields: one ASCII character |
/// | `max_file_bytes` | `4GiB` | a larger file, plain or decompressed, is refused |
///
/// A bad row has another number of fields than the header, or no finite number in a chosen column. It ends the run; with
/// `on_corrupt = "skip"` the windows with it are left out.
///
/// # Errors
/// A value of the wrong type or out of its range. [`open`](crate::OpenSource::open) checks the files.
pub fn csv(section: &Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> {
    Ok(Box::new(CsvSettings::read(section)?))
}

/// The settings that [`csv`] reads.
#[derive(Clone)]
pub(super) struct CsvSettings {
    pub(super) path: PathBuf,
    pub(super) columns: Vec<String>,
    pub(super) targets: Vec<String>,
    pub(super) steps: usize,
    pub(super) horizon: usize,
    pub(super) held_out: f64,
    pub(super) normalize: bool,
    pub(super) delimiter: u8,
    pub(super) max_file_bytes: Bytes,
    pub(super) on_corrupt: OnCorrupt,
}

impl CsvSettings {
    pub(super) fn read(section: &Section) -> Result<Self, ConfigError> {
        let names = |key: &str| {
            let names = section.strings(key, &[])?;
            let is_first = |(index, name): (usize, &String)| !names[..index].contains(name);
            match names.iter().enumerate().all(is_first) {
                true => Ok(names),
                false => Err(section.invalid(key, "each column once")),
            }
        };
        let delimiter = section.string("delimiter", ",")?;
        let &[delimiter @ (b'\t' | b' '..=b'~')] = delimiter.as_bytes() else {
            return Err(section.invalid("delimiter", "one ASCII character"));
        };
        if delimiter.is_ascii_alphanumeric() || b"\"+-.".contains(&delimiter) {
            return Err(section.invalid("delimiter", "a character that cannot be part of names or numbers"));
        }
        Ok(Self {
            path: required_path(section, "path", "the CSV file")?,
            columns: names("columns")?,
            targets: names("targets")?,
            steps: section.integer("steps", 32, 1..=65_536)?,
            horizon: section.integer("horizon", 1, 1..=65_536)?,
            held_out: section.number("held_out", 0.2, 0.0..1.0)?,
            normalize: section.choice("normalize", "auto", &[("auto", true), ("none", false)])?,
            delimiter,
            max_file_bytes: max_file_bytes(section)?,
            on_corrupt: OnCorrupt::read(section)?,
        })
    }

    /// The settings, with the recorded columns where the config names none.
    pub(super) fn with_columns_of(&self, recorded: &Columns) -> Self {
        let or = |own: &[String], recorded: &[String]| if own.is_empty() { recorded } else { own }.to_vec();
        Self {
            targets: match (self.columns.is_empty(), self.targets.is_empty()) {
                // Without targets of their own, the named columns are the targets.
                (false, true) => Vec::new(),
                _ => or(&self.targets, &recorded.targets),
            },
            columns: or(&self.columns, &recorded.inputs),
            ..self.clone()
        }
    }

    /// The columns to read, inputs first; empty for all.
    pub(super) fn all_columns(&self) -> Vec<String> {
        if self.columns.is_empty() {
            return Vec::new();
        }
        let more = self.targets.iter().filter(|name| !self.columns.contains(name));
        self.columns.iter().chain(more).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CsvSettings, ConfigError> {
        CsvSettings::read(&Section::from_toml("data", text).expect("valid TOML"))
    }

    #[test]
    fn inputs_come_before_columns_that_are_targets_only() {
        let settings = read("path = 'x'\ncolumns = ['a', 'b']\ntargets = ['c', 'b']").expect("valid");
        assert_eq!(settings.all_columns(), ["a", "b", "c"]);
        assert_eq!(read("path = 'x'\ntargets = ['c']").expect("valid").all_columns(), [""; 0]);
    }

    #[test]
    fn settings_are_checked_without_the_data() {
        assert_eq!(read("path = 'x'\ndelimiter = \"\\t\"").expect("a tab").delimiter, b'\t');
        for text in [
            "",
            "path = 'x'\ncolumns = ['a', 'a']",
            "path = 'x'\nsteps = 0",
            "path = 'x'\nhorizon = 0",
            "path = 'x'\nheld_out = 1.0",
            "path = 'x'\ndelimiter = ';;'",
            "path = 'x'\ndelimiter = '.'",
            "path = 'x'\nnormalize = 'given'",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
