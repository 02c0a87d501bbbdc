//! Writes values into a config file and keeps the rest of it: comments, order and spaces.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use oomph_core::{
    files::{create_fresh, unfinished},
    open_file_with,
    system::keep_owner,
};
use toml_edit::{DocumentMut, Item, Table};

use crate::{error::ConfigError, file::ConfigFile, value::Value};

impl ConfigFile {
    /// The text with other values for some full keys, such as `train.batch`.
    ///
    /// # Errors
    /// The text is not TOML, or a key is a section in it.
    pub fn with_values(&self, values: &[(&str, Value)]) -> Result<String, ConfigError> {
        let refused = |key: &str, reason: &str| ConfigError::NotEditable {
            place: self.place(),
            key: key.to_owned(),
            reason: reason.to_owned(),
        };
        let first = values.first().map_or("", |(key, _)| *key);
        let (mark, text) = match self.text().strip_prefix('\u{feff}') {
            Some(text) => ("\u{feff}", text),
            None => ("", self.text()),
        };
        let parsed = text.parse::<DocumentMut>();
        let mut document = parsed.map_err(|error| refused(first, error.message()))?;
        for (key, value) in values {
            set(&mut document, key, value).ok_or_else(|| refused(key, "it is not a key of a section"))?;
        }
        let edited = document.to_string();
        // The editor normalises line ends.
        let is_dos = text.contains("\r\n");
        let edited = if is_dos { edited.replace("\r\n", "\n").replace('\n', "\r\n") } else { edited };
        Ok(format!("{mark}{edited}"))
    }

    /// Checks that values can be written into the file, as far as that can be known beforehand.
    ///
    /// # Errors
    /// The config has no file, or the file is not writable.
    pub fn check_writable(&self) -> Result<(), ConfigError> {
        let path = self.path().ok_or_else(|| ConfigError::NoFile { name: self.place() })?;
        let check = || {
            open_file_with(fs::OpenOptions::new().append(true), path)?;
            // A new file beside it will replace it.
            let beside = unfinished(&fs::canonicalize(path)?);
            create_fresh(&beside)?;
            fs::remove_file(beside)
        };
        check().map_err(|source| ConfigError::Write { path: path.to_owned(), source })
    }

    /// Writes values into the file. A new file beside it replaces it, so the file is never half written.
    ///
    /// # Errors
    /// As [`with_values`](Self::with_values); also where the config has no file, or the system refuses.
    pub fn write_values(&self, values: &[(&str, Value)]) -> Result<PathBuf, ConfigError> {
        let path = self.path().ok_or_else(|| ConfigError::NoFile { name: self.place() })?;
        let text = self.with_values(values)?;
        replace(path, &text).map_err(|source| ConfigError::Write { path: path.to_owned(), source })?;
        Ok(path.to_owned())
    }
}

/// Sets a key of a section. `None` if the section is not a table, or if the key is already a table.
fn set(document: &mut DocumentMut, key: &str, value: &Value) -> Option<()> {
    let (section, key) = key.split_once('.')?;
    let table = document.entry(section).or_insert_with(|| Item::Table(Table::new())).as_table_like_mut()?;
    // As TOML writes it, so that it parses.
    let mut new: toml_edit::Value = value.to_string().parse().ok()?;
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            // Keep the spaces before the value and the comment behind it.
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        Some(Item::None) | None => drop(table.insert(key, Item::Value(new))),
        Some(_) => return None,
    }
    Some(())
}

/// Replaces the target of a link, not the link. The new file keeps owner and permissions.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let path = fs::canonicalize(path)?;
    let unfinished = unfinished(&path);
    let write = || {
        let mut file = create_fresh(&unfinished)?;
        let before = fs::metadata(&path)?;
        file.set_permissions(before.permissions())?;
        keep_owner(&file, &before);
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, &path)
    };
    write().inspect_err(|_| {
        // The unfinished file is useless; report the first error.
        let _ = fs::remove_file(&unfinished);
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn edited(text: &str, values: &[(&str, Value)]) -> String {
        ConfigFile::from_text("x.toml", text).with_values(values).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_value_is_changed_and_all_else_stays() {
        let text = "# the head\n[train]\nbatch   = 32   # why it is 32\nepochs = 5\n\n# the end\n";
        insta::assert_snapshot!(edited(text, &[("train.batch", Value::from(201usize))]), @r"
        # the head
        [train]
        batch   = 201   # why it is 32
        epochs = 5

        # the end
        ");
    }

    #[test]
    fn a_key_and_a_section_that_are_missing_are_added() {
        let values = [("train.batch", Value::from(8usize)), ("memory.micro_batch", Value::from(4usize))];
        insta::assert_snapshot!(edited("[train]\nepochs = 5 # few\n", &values), @r"
        [train]
        epochs = 5 # few
        batch = 8

        [memory]
        micro_batch = 4
        ");
    }

    #[test]
    fn however_a_section_is_written_it_is_found() {
        let values = [("train.batch", Value::from(8usize))];
        assert_eq!(
            edited("train = { batch = 1, epochs = 2 }\n", &values),
            "train = { batch = 8, epochs = 2 }\n"
        );
        assert_eq!(edited("train.batch = 1 # one\n", &values), "train.batch = 8 # one\n");
        assert_eq!(edited("train.epochs = 1\n", &values), "train.epochs = 1\ntrain.batch = 8\n");
    }

    #[test]
    fn line_ends_and_a_byte_order_mark_stay() {
        let values = [("train.batch", Value::from(8usize))];
        let text = "\u{feff}[train]\r\nbatch = 1 # one\r\nepochs = 2\r\n";
        assert_eq!(edited(text, &values), text.replace("batch = 1", "batch = 8"));
    }

    #[test]
    fn what_is_no_section_is_refused() {
        for text in ["train = 3", "[train.batch]\nx = 1", "[train"] {
            let values = [("train.batch", Value::from(8usize))];
            assert!(ConfigFile::from_text("x.toml", text).with_values(&values).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_is_replaced_with_its_permissions_and_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("x.toml"), folder.path().join("link.toml"));
        fs::write(&file, "[train]\nbatch = 1\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let config = ConfigFile::read(&link).unwrap();
        config.write_values(&[("train.batch", Value::from(2usize))]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "[train]\nbatch = 2\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(link.is_symlink() && fs::read_dir(folder.path()).unwrap().count() == 2);
        config.check_writable().unwrap();
        let nowhere = ConfigFile::from_text("built in", "").write_values(&[]).unwrap_err();
        assert!(nowhere.to_string().contains("built into the program"), "{nowhere}");
    }
}
