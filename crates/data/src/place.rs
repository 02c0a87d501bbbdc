//! Paths in settings.

use std::path::{Path, PathBuf};

use oomph_config::{ConfigError, Section};

use crate::DataError;

/// The path of a required key. As in a shell, `~` at its beginning stands for the home directory.
pub(crate) fn required_path(section: &Section, key: &str, expected: &str) -> Result<PathBuf, ConfigError> {
    let text = section.required_string(key, expected)?;
    Ok(at_home(&text, std::env::home_dir()))
}

/// The path of a key that may be absent.
pub(crate) fn optional_path(section: &Section, key: &str) -> Result<Option<PathBuf>, ConfigError> {
    let text = section.optional_string(key)?;
    Ok(text.map(|text| at_home(&text, std::env::home_dir())))
}

/// The path of data that may not be there: a plan needs its shape alone.
#[derive(Clone, Debug)]
pub(crate) struct DataPath {
    path: Option<PathBuf>,
    expected: &'static str,
}

impl DataPath {
    /// Reads `path`; `expected` says what lies there.
    pub(crate) fn read(section: &Section, expected: &'static str) -> Result<Self, ConfigError> {
        Ok(Self { path: optional_path(section, "path")?, expected })
    }

    /// The path, if one is given.
    pub(crate) fn given(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The path.
    ///
    /// # Errors
    /// None is given.
    pub(crate) fn get(&self) -> Result<&Path, DataError> {
        self.path.as_deref().ok_or(DataError::NoPath { expected: self.expected })
    }
}

fn at_home(text: &str, home: Option<PathBuf>) -> PathBuf {
    let below = match text {
        "~" => Some(""),
        _ => text.strip_prefix("~/"),
    };
    match (below, home) {
        (Some(below), Some(home)) => home.join(below),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tilde_is_the_home_directory() {
        let path = |text| at_home(text, Some("/home/me".into()));
        assert_eq!(path("~/photos/cats"), PathBuf::from("/home/me/photos/cats"));
        assert_eq!(path("~"), PathBuf::from("/home/me"));
        for same in ["photos", "/photos", "~other/photos", "a/~/b"] {
            assert_eq!(path(same), PathBuf::from(same));
        }
        assert_eq!(at_home("~/x", None), PathBuf::from("~/x"));
    }
}
