//! Images whose classes are in a CSV file.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    path::{Path, PathBuf},
};

use csv::ByteRecord;
use oomph_config::{ConfigError, Section};
use oomph_core::Bytes;

use super::{
    scan::{ClassFiles, FolderListing, FolderPart, HELD_OUT, Layout, split},
    settings::Holdout,
};
use crate::{
    DataError, Flaw, FormatProblem, OnCorrupt,
    flaw::shortened,
    input::{Input, read_file},
    memory_images::file_name,
    place::optional_path,
    series::{CsvRows, places},
};

/// The settings of a file of labels.
pub(super) struct LabelSettings {
    /// `labels`
    pub(super) path: PathBuf,
    file_column: String,
    label_column: String,
    /// `split_column`; `None` for the column `split`, if there is one.
    split_column: Option<String>,
}

/// The column that divides the images if the settings name none.
const SPLIT: &str = "split";

/// The largest file of labels: a million images take about 50 MB.
const MAX_LABEL_BYTES: Bytes = Bytes::mib(1 << 10);

impl LabelSettings {
    /// Reads the keys; `None` without `labels`.
    pub(super) fn read(section: &Section) -> Result<Option<Self>, ConfigError> {
        let path = optional_path(section, "labels")?;
        if path.is_none() {
            for key in ["file_column", "label_column", "split_column"] {
                section.has_no_effect(key, "`data.labels` is not set: the folders name the classes");
            }
        }
        let (file_column, label_column) =
            (section.string("file_column", "file")?, section.string("label_column", "label")?);
        let split_column = section.optional_string("split_column")?;
        let is_other = |name: &String| *name != file_column && *name != label_column;
        if file_column == label_column {
            return Err(section.invalid("label_column", "another column than `data.file_column`"));
        }
        if !split_column.as_ref().is_none_or(is_other) {
            let expected = "another column than `data.file_column` and `data.label_column`";
            return Err(section.invalid("split_column", expected));
        }
        Ok(path.map(|path| Self { path, file_column, label_column, split_column }))
    }

    /// The folder that the files in the table are relative to: `folder`, else that of the table.
    fn root(&self, folder: Option<&Path>) -> PathBuf {
        folder.or(self.path.parent()).unwrap_or(Path::new("")).to_owned()
    }
}

/// A row of the table.
struct LabelRow {
    file: String,
    label: String,
    /// The text in the column of the parts, in lower case; empty without such a column.
    part: String,
    line: u64,
    byte: u64,
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
    let is_used = |part: &str| table.rows.iter().any(|row| row.part == part);
    let Some(held_out) = HELD_OUT.into_iter().find(|part| is_used(part)) else {
        return split(part(&root, table.rows, &[]), holdout);
    };
    let column = table.split_column.unwrap_or_default();
    let origin =
        format!("the rows of `{}` with `{held_out}` in column `{column}`", file_name(&settings.path));
    holdout.note_unused(&origin);
    let (train, test): (Vec<_>, Vec<_>) = table
        .rows
        .into_iter()
        .filter(|row| row.part == "train" || row.part == held_out)
        .partition(|row| row.part == "train");
    let classes = labels(&train);
    if let Some(row) = test.iter().find(|row| !classes.contains(&row.label)) {
        let problem = FormatProblem::LabelNotTrained { line: row.line, label: shortened(&row.label) };
        return Err(in_table(Flaw::new(row.byte, problem)));
    }
    let (train, test) = (part(&root, train, &classes), part(&root, test, &classes));
    Ok(FolderListing { classes, train, test, held_out: origin })
}

/// The labels in order of name, each once.
fn labels(rows: &[LabelRow]) -> Vec<String> {
    let labels: std::collections::BTreeSet<&String> = rows.iter().map(|row| &row.label).collect();
    labels.into_iter().cloned().collect()
}

/// The images of some rows, by class and then by file. `classes` may have more classes than the rows.
fn part(root: &Path, rows: Vec<LabelRow>, classes: &[String]) -> FolderPart {
    let mut by_class: BTreeMap<String, Vec<OsString>> =
        classes.iter().map(|class| (class.clone(), Vec::new())).collect();
    for row in rows {
        by_class.entry(row.label).or_default().push(row.file.into());
    }
    let classes = by_class.into_iter().map(|(name, mut files)| {
        files.sort_unstable();
        ClassFiles { name: name.into(), files }
    });
    FolderPart::new(root.to_owned(), classes.collect(), Layout::Labels)
}

fn check_files(rows: &[LabelRow], root: &Path) -> Result<(), Flaw> {
    let missing = rows.iter().find(|row| !root.join(&row.file).is_file());
    missing.map_or(Ok(()), |row| {
        let path = root.join(&row.file);
        Err(Flaw::new(row.byte, FormatProblem::NoImage { line: row.line, path }))
    })
}

/// The rows of a table, and the name of the column of the parts.
struct LabelTable {
    rows: Vec<LabelRow>,
    split_column: Option<String>,
}

/// Reads a table.
fn read(input: Input<'_>, settings: &LabelSettings) -> Result<LabelTable, Flaw> {
    let LabelSettings { file_column, label_column, .. } = settings;
    let mut csv = CsvRows::new(input, b',');
    let header = csv.header()?;
    let split_column = match &settings.split_column {
        Some(column) => Some(column.clone()),
        None => header.iter().any(|name| name == SPLIT).then(|| SPLIT.to_owned()),
    };
    let wanted: Vec<_> = [Some(file_column), Some(label_column), split_column.as_ref()]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    let places = places(&header, &wanted)?;
    let mut rows = Vec::new();
    let mut first_lines: HashMap<String, u64> = HashMap::new();
    let mut record = ByteRecord::new();
    while csv.next(&mut record)? {
        let (byte, line) = record.position().map_or((0, 0), |place| (place.byte(), place.line()));
        let row = row(&record, header.len(), &places, &wanted, [byte, line])?;
        if let Some(first) = first_lines.insert(row.file.clone(), line) {
            let problem = FormatProblem::SameFile { line, file: shortened(&row.file), first };
            return Err(Flaw::new(byte, problem));
        }
        rows.push(row);
    }
    match rows.is_empty() {
        true => Err(Flaw::new(csv.byte(), FormatProblem::Nothing { what: "rows" })),
        false => Ok(LabelTable { rows, split_column }),
    }
}

/// One row. `places` are the columns of file, label and, if there is a third, part.
fn row(
    record: &ByteRecord,
    columns: usize,
    places: &[usize],
    names: &[String],
    [byte, line]: [u64; 2],
) -> Result<LabelRow, Flaw> {
    if record.len() != columns {
        let problem = FormatProblem::Fields { line, found: record.len(), expected: columns };
        return Err(Flaw::new(byte, problem));
    }
    let field = |index: usize| -> Result<String, Flaw> {
        let bytes = record.get(places[index]).unwrap_or_default();
        let text = std::str::from_utf8(bytes).map_err(|_| Flaw::new(byte, FormatProblem::NotText))?.trim();
        match text.is_empty() {
            true => {
                let problem = FormatProblem::EmptyField { line, column: shortened(&names[index]) };
                Err(Flaw::new(byte, problem))
            }
            false => Ok(text.to_owned()),
        }
    };
    let part = match places.len() {
        3.. => field(2)?.to_lowercase(),
        _ => String::new(),
    };
    if places.len() > 2 && part != "train" && !HELD_OUT.contains(&part.as_str()) {
        let problem = FormatProblem::Part { line, column: shortened(&names[2]), text: shortened(&part) };
        return Err(Flaw::new(byte, problem));
    }
    Ok(LabelRow { file: field(0)?, label: field(1)?, part, line, byte })
}

/// The rows of a table in memory. For fuzz tests.
pub(crate) fn parse(input: Input<'_>) -> Result<(), Flaw> {
    let settings = LabelSettings {
        path: PathBuf::new(),
        file_column: "file".to_owned(),
        label_column: "label".to_owned(),
        split_column: None,
    };
    read(input, &settings).map(drop)
}
