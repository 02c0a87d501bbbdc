//! The settings of a CSV file of images and their labels.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use oomph_config::{ConfigError, Section};

use crate::place::optional_path;

/// The settings of a file of labels.
pub(super) struct LabelSettings {
    /// `labels`
    pub(super) path: PathBuf,
    pub(super) file_column: String,
    pub(super) label_column: String,
    /// `split_column`; `None` for the column `split`, if there is one.
    pub(super) split_column: Option<String>,
    pub(super) form: LabelForm,
}

/// How the table has the labels of an image.
pub(super) enum LabelForm {
    /// One class, in a column.
    One,
    /// Any number, in a column, with this text between them.
    Separated(String),
    /// Any number, each with a column of its own that marks the images which have it.
    Columns(LabelColumns),
}

/// The columns that mark labels.
pub(super) enum LabelColumns {
    /// All but those of the file and the part.
    All,
    Listed(Vec<String>),
}

impl LabelSettings {
    /// Reads the keys; `None` without `labels`.
    pub(super) fn read(section: &Section) -> Result<Option<Self>, ConfigError> {
        let path = optional_path(section, "labels")?;
        if path.is_none() {
            for key in ["file_column", "label_column", "label_separator", "label_columns", "split_column"] {
                section.has_no_effect(key, "`data.labels` is not set: the folders name the classes");
            }
        }
        let (file_column, label_column) =
            (section.string("file_column", "file")?, section.string("label_column", "label")?);
        let split_column = section.optional_string("split_column")?;
        let form = LabelForm::read(section)?;
        if matches!(form, LabelForm::Columns(_)) {
            section.has_no_effect("label_column", "`data.label_columns` has a column for each label");
        } else if file_column == label_column {
            return Err(section.invalid("label_column", "another column than `data.file_column`"));
        }
        let is_used = |name: &String| match &form {
            _ if *name == file_column => true,
            LabelForm::Columns(LabelColumns::Listed(columns)) => columns.contains(name),
            LabelForm::Columns(LabelColumns::All) => false,
            LabelForm::One | LabelForm::Separated(_) => *name == label_column,
        };
        if split_column.as_ref().is_some_and(is_used) {
            let others = match form {
                LabelForm::Columns(_) => "`data.label_columns`",
                LabelForm::One | LabelForm::Separated(_) => "`data.label_column`",
            };
            let expected = format!("another column than `data.file_column` and {others}");
            return Err(section.invalid("split_column", expected));
        }
        if let LabelForm::Columns(LabelColumns::Listed(columns)) = &form
            && columns.contains(&file_column)
        {
            return Err(section.invalid("label_columns", "other columns than `data.file_column`"));
        }
        Ok(path.map(|path| Self { path, file_column, label_column, split_column, form }))
    }

    /// Whether an image may have several labels, or none.
    pub(super) fn has_several(&self) -> bool {
        !matches!(self.form, LabelForm::One)
    }

    /// The folder that the files in the table are relative to: `folder`, else that of the table.
    pub(super) fn root(&self, folder: Option<&Path>) -> PathBuf {
        folder.or(self.path.parent()).unwrap_or(Path::new("")).to_owned()
    }
}

impl LabelForm {
    fn read(section: &Section) -> Result<Self, ConfigError> {
        let separator = section.optional_string("label_separator")?;
        let columns = LabelColumns::read(section)?;
        match (separator, columns) {
            (None, None) => Ok(Self::One),
            (Some(separator), None) if !separator.is_empty() => Ok(Self::Separated(separator)),
            (None, Some(columns)) => Ok(Self::Columns(columns)),
            (Some(_), None) => Err(section.invalid("label_separator", "a text such as `|`, `;` or a space")),
            (Some(_), Some(_)) => {
                let expected = "none, since `data.label_columns` has a column for each label";
                Err(section.invalid("label_separator", expected))
            }
        }
    }
}

impl LabelColumns {
    /// Reads `label_columns`: `all` or a list.
    fn read(section: &Section) -> Result<Option<Self>, ConfigError> {
        const KEY: &str = "label_columns";
        let given = section.optional_string(KEY);
        match given.as_ref().map(Option::as_deref) {
            Ok(None) => return Ok(None),
            Ok(Some("all")) => return Ok(Some(Self::All)),
            _ => {}
        }
        let columns = section.strings(KEY, &[]).unwrap_or_default();
        let is_each_once = columns.iter().collect::<BTreeSet<_>>().len() == columns.len();
        if columns.is_empty() || !is_each_once {
            let expected =
                "`all`, or a list of columns that mark labels, each once, as in `[\"cat\", \"dog\"]`";
            return Err(section.invalid(KEY, expected));
        }
        Ok(Some(Self::Listed(columns)))
    }
}
