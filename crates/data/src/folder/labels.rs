//! Images whose labels are in a CSV file.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use oomph_config::{ConfigError, Section};
use oomph_core::Bytes;

use super::{
    label_sets::{self, LabelledPart},
    label_table::{LabelRow, LabelTable, read},
    scan::{ClassFiles, FolderListing, FolderPart, HELD_OUT, Layout, split},
    settings::Holdout,
};
use crate::{
    DataError, Flaw, FormatProblem, OnCorrupt,
    flaw::shortened,
    input::{Input, read_file},
    memory_images::file_name,
    place::optional_path,
    source::Parts,
};

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

/// The largest file of labels: a million images take about 50 MB.
const MAX_LABEL_BYTES: Bytes = Bytes::mib(1 << 10);

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
    fn root(&self, folder: Option<&Path>) -> PathBuf {
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

/// Lists the images of a table. Their files must exist, unless unreadable samples are skipped.
pub(super) fn scan(
    settings: &LabelSettings,
    folder: Option<&Path>,
    holdout: &Holdout,
    on_corrupt: OnCorrupt,
) -> Result<FolderListing, DataError> {
    if !settings.path.exists() {
        return Err(DataError::NoLabels { path: settings.path.clone() });
    }
    let root = settings.root(folder);
    let in_table = |flaw: Flaw| DataError::Format(flaw.in_file(&settings.path));
    let table = read_file(&settings.path, MAX_LABEL_BYTES, |input| read(input, settings))?;
    if on_corrupt == OnCorrupt::Fail {
        check_files(&table.rows, &root).map_err(in_table)?;
    }
    let LabelTable { mut rows, names, split_column } = table;
    let held_out = HELD_OUT.into_iter().find(|part| rows.iter().any(|row| row.part == *part));
    if held_out.is_none() && !settings.has_several() {
        return split(part(&root, rows, &names), holdout);
    }
    let ([train, test], held_out) = match held_out {
        Some(held_out) => {
            let column = split_column.unwrap_or_default();
            let file = file_name(&settings.path);
            let origin = format!("the rows of `{file}` with `{held_out}` in column `{column}`");
            holdout.note_unused(&origin);
            rows.retain(|row| row.part == "train" || row.part == held_out);
            let (train, test) = rows.into_iter().partition(|row| row.part == "train");
            ([train, test], origin)
        }
        None if rows.len() < 2 => return Err(DataError::SingleImage { path: settings.path.clone() }),
        None => (label_sets::hold_out(rows, names.len(), holdout), holdout.origin("the images")),
    };
    // Columns declare their labels, whether or not an image has them.
    let is_declared = matches!(settings.form, LabelForm::Columns(_));
    let trained: BTreeSet<usize> = match is_declared {
        true => (0..names.len()).collect(),
        false => train.iter().flat_map(|row: &LabelRow| row.labels.iter().copied()).collect(),
    };
    let [train, test] = renamed([train, test], &names, &trained).map_err(in_table)?;
    let classes: Vec<String> = trained.iter().map(|label| names[*label].clone()).collect();
    if !settings.has_several() {
        let (train, test) = (part(&root, train, &classes), part(&root, test, &classes));
        return Ok(FolderListing { classes, train, test, held_out, label_sets: None });
    }
    if train.is_empty() || classes.is_empty() {
        let what = if train.is_empty() { "rows to train on" } else { "row to train on with a label" };
        return Err(in_table(Flaw::new(0u64, FormatProblem::Nothing { what })));
    }
    let LabelledPart { part: train, sets } = label_sets::part(&root, train, &classes);
    let LabelledPart { part: test, sets: of_test } = label_sets::part(&root, test, &classes);
    let label_sets = Some(Parts { train: sets, test: of_test });
    Ok(FolderListing { classes, train, test, held_out, label_sets })
}

/// The rows of both parts, with the places of their labels among the `trained` ones.
fn renamed(
    parts: [Vec<LabelRow>; 2],
    names: &[String],
    trained: &BTreeSet<usize>,
) -> Result<[Vec<LabelRow>; 2], Flaw> {
    let mut places = vec![None; names.len()];
    trained.iter().enumerate().for_each(|(place, label)| places[*label] = Some(place));
    let [mut train, mut test] = parts;
    for row in train.iter_mut().chain(&mut test) {
        for label in &mut row.labels {
            *label = places[*label].ok_or_else(|| {
                let label = shortened(&names[*label]);
                Flaw::new(row.byte, FormatProblem::LabelNotTrained { line: row.line, label })
            })?;
        }
    }
    Ok([train, test])
}

/// The images of some rows with one label each, by class and then by file. Some classes may have no image.
fn part(root: &Path, rows: Vec<LabelRow>, classes: &[String]) -> FolderPart {
    let files = |name: &String| ClassFiles { name: name.into(), files: Vec::new() };
    let mut by_class: Vec<_> = classes.iter().map(files).collect();
    for row in rows {
        let class = row.labels.first().and_then(|label| by_class.get_mut(*label));
        class.into_iter().for_each(|class| class.files.push(row.file.as_str().into()));
    }
    by_class.iter_mut().for_each(|class| class.files.sort_unstable());
    FolderPart::new(root.to_owned(), by_class, Layout::Labels)
}

fn check_files(rows: &[LabelRow], root: &Path) -> Result<(), Flaw> {
    let missing = rows.iter().find(|row| !root.join(&row.file).is_file());
    missing.map_or(Ok(()), |row| {
        let path = root.join(&row.file);
        Err(Flaw::new(row.byte, FormatProblem::NoImage { line: row.line, path }))
    })
}

/// The rows of a table in memory, in each form of labels: the error of the last if none reads it. For fuzz tests.
pub(crate) fn parse<'a>(input: impl Fn() -> Result<Input<'a>, Flaw>) -> Result<(), Flaw> {
    let settings = |form| LabelSettings {
        path: PathBuf::new(),
        file_column: "file".to_owned(),
        label_column: "label".to_owned(),
        split_column: None,
        form,
    };
    let forms = [LabelForm::Columns(LabelColumns::All), LabelForm::Separated("|".to_owned()), LabelForm::One];
    let read = forms.map(|form| read(input()?, &settings(form)).map(drop));
    read.into_iter().reduce(Result::or).unwrap_or(Ok(()))
}
