use std::path::Path;

use csv::ByteRecord;
use oomph_core::Bytes;

use super::{Detected, text};
use crate::{
    DataError, Flaw,
    folder::{Mark, SPLIT, is_image},
    input::{Input, read_file},
    series::CsvRows,
};

/// The most bytes of a table that is looked at.
const MOST: Bytes = Bytes::mib(4 << 10);

/// Names of columns with a class or labels, in the order in which they are looked for.
const LABELS: [&str; 8] = ["label", "class", "category", "target", "species", "y", "labels", "tags"];

/// Texts between labels in a column, in the order in which they are looked for.
const SEPARATORS: [&str; 3] = ["|", ";", " "];

/// Windows of a series, at most: the default of `data.steps`.
const STEPS: usize = 32;

/// The beginning of a table, and its size.
struct Table {
    delimiter: u8,
    header: Vec<String>,
    /// The fields of the first row.
    first: Vec<String>,
    /// Whether each column has a finite number in every row.
    are_numbers: Vec<bool>,
    /// Whether each column marks rows by 1, and others by 0 or -1.
    are_marks: Vec<bool>,
    /// Which of the [`SEPARATORS`] each column has.
    separators: Vec<[bool; SEPARATORS.len()]>,
    rows: usize,
}

/// A table of labels, or else a series.
pub(super) fn detect(path: &Path) -> Result<Option<Detected>, DataError> {
    match labels(path)? {
        Some(found) => Ok(Some(found)),
        None => series(path),
    }
}

/// A table with a column of image files and one of their classes.
pub(super) fn labels(path: &Path) -> Result<Option<Detected>, DataError> {
    let Some(table) = read(path)?.filter(|table| table.delimiter == b',') else { return Ok(None) };
    let root = path.parent().unwrap_or(Path::new(""));
    let is_file = |field: &String| is_image(field.as_ref()) && root.join(field).is_file();
    let file = table.first.iter().position(is_file).filter(|file| *file < table.header.len());
    let Some(file) = file else { return Ok(None) };
    let named = |name: &&str| table.header.iter().position(|column| column.eq_ignore_ascii_case(name));
    let other = || (table.header.len() == 2).then_some(1 - file.min(1));
    let label = LABELS.iter().find_map(named).filter(|label| *label != file).or_else(other);
    let mut found = Detected {
        source: "folder",
        what: format!("{} images with a table of labels", table.rows),
        settings: Vec::new(),
    }
    .with("labels", text(path), "the files in it are relative to its folder");
    let with_column = |found: Detected, key, default, column: usize| match &table.header[column] {
        name if name == default => found,
        name => found.with(key, name.clone(), ""),
    };
    found = with_column(found, "file_column", "file", file);
    if let Some(label) = label {
        found = with_column(found, "label_column", "label", label);
        return Ok(Some(match table.separator(label) {
            Some(separator) => found.with("label_separator", separator, "an image may have several labels"),
            None => found,
        }));
    }
    let marks: Vec<_> = (0..table.header.len()).filter(|column| table.are_marks[*column]).collect();
    if marks.len() < 2 {
        return Ok(None);
    }
    let is_part = |column: usize| table.header[column] == SPLIT;
    let is_all =
        (0..table.header.len()).all(|column| column == file || is_part(column) || table.are_marks[column]);
    let why = "an image has each label that its row marks by 1";
    Ok(Some(match is_all {
        true => found.with("label_columns", "all", why),
        false => {
            let names = marks.iter().map(|column| table.header[*column].clone()).collect::<Vec<_>>();
            found.with("label_columns", names, why)
        }
    }))
}

impl Table {
    /// What divides the labels in a column; `None` if each row has one label.
    fn separator(&self, column: usize) -> Option<&'static str> {
        // A class may have a space in its name.
        let has_several =
            ["labels", "tags"].iter().any(|name| self.header[column].eq_ignore_ascii_case(name));
        let found = SEPARATORS.into_iter().zip(self.separators[column]);
        found.filter(|(separator, is)| *is && (*separator != " " || has_several)).map(|it| it.0).next()
    }
}

/// A series of numbers.
pub(super) fn series(path: &Path) -> Result<Option<Detected>, DataError> {
    let Some(table) = read(path)? else { return Ok(None) };
    let numeric: Vec<String> = table
        .header
        .iter()
        .zip(&table.are_numbers)
        .filter(|(_, is)| **is)
        .map(|(name, _)| name.clone())
        .collect();
    if numeric.is_empty() || table.rows == 0 {
        return Ok(None);
    }
    let what = format!("a CSV file of {} rows with {} numeric columns", table.rows, numeric.len());
    let mut found = Detected::at("csv", what, path);
    if table.delimiter != b',' {
        found = found.with("delimiter", char::from(table.delimiter).to_string(), "");
    }
    if numeric.len() < table.header.len() {
        let others = "the other columns hold no numbers";
        found = found.with("columns", numeric, others);
    }
    // A fifth of the rows is held out, and has to hold some windows.
    let steps = (table.rows / 15).clamp(1, STEPS);
    Ok(Some(found.with("steps", steps, "rows of a sample")))
}

/// Reads a table with the separator that gives its header the most fields; `None` for a file that is no table.
fn read(path: &Path) -> Result<Option<Table>, DataError> {
    let with = |delimiter: u8| read_file(path, MOST, |input| scan(input, delimiter));
    let width = |delimiter: u8| {
        let header = read_file(path, MOST, |input| CsvRows::new(input, delimiter).header());
        header.map_or(0, |header| header.len())
    };
    // Of equally wide headers, that of the first separator.
    let delimiter = [b',', b';', b'\t'].into_iter().rev().max_by_key(|delimiter| width(*delimiter));
    match delimiter.map(with) {
        Some(Ok(table)) => Ok(Some(table)),
        Some(Err(error @ (DataError::Io { .. } | DataError::Missing { .. }))) => Err(error),
        // A file with another content than a table: opening it says what is wrong with it.
        Some(Err(_)) | None => Ok(None),
    }
}

fn scan(input: Input<'_>, delimiter: u8) -> Result<Table, Flaw> {
    let mut csv = CsvRows::new(input, delimiter);
    let header = csv.header()?;
    let mut table = Table {
        delimiter,
        are_numbers: vec![true; header.len()],
        are_marks: vec![true; header.len()],
        separators: vec![[false; SEPARATORS.len()]; header.len()],
        header,
        first: Vec::new(),
        rows: 0,
    };
    let mut record = ByteRecord::new();
    while csv.next(&mut record)? {
        let text = |field: &[u8]| String::from_utf8_lossy(field).trim().to_owned();
        if table.rows == 0 {
            table.first = record.iter().map(text).collect();
        }
        table.rows += 1;
        for (is_number, field) in table.are_numbers.iter_mut().zip(&record) {
            let number = std::str::from_utf8(field).ok().and_then(|text| text.trim().parse::<f32>().ok());
            *is_number &= number.is_some_and(f32::is_finite);
        }
        for (is_mark, field) in table.are_marks.iter_mut().zip(&record) {
            *is_mark &= std::str::from_utf8(field).is_ok_and(|text| Mark::of(text.trim_ascii()).is_some());
        }
        for (has, field) in table.separators.iter_mut().zip(&record) {
            let field = String::from_utf8_lossy(field.trim_ascii());
            has.iter_mut().zip(SEPARATORS).for_each(|(has, separator)| *has |= field.contains(separator));
        }
    }
    Ok(table)
}
