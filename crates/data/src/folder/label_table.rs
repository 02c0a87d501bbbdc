//! The rows of a CSV file of images and their labels.

use std::collections::{BTreeSet, HashMap};

use csv::ByteRecord;

use super::{
    label_settings::{LabelColumns, LabelForm, LabelSettings},
    scan::HELD_OUT,
};
use crate::{
    Flaw, FormatProblem,
    flaw::shortened,
    input::Input,
    series::{CsvRows, places},
};

/// The column that divides the images if the settings name none.
pub(crate) const SPLIT: &str = "split";

/// The rows of a table.
pub(super) struct LabelTable {
    pub(super) rows: Vec<LabelRow>,
    /// The labels in order of name, each once: those of the rows, or all columns of labels.
    pub(super) names: Vec<String>,
    /// The column of the parts.
    pub(super) split_column: Option<String>,
}

/// A row of the table.
pub(super) struct LabelRow {
    pub(super) file: String,
    /// The indices of its labels, in order.
    pub(super) labels: Box<[usize]>,
    /// The text in the column of the parts, in lower case; empty without such a column.
    pub(super) part: String,
    pub(super) line: u64,
    pub(super) byte: u64,
}

/// Reads a table.
pub(super) fn read(input: Input<'_>, settings: &LabelSettings) -> Result<LabelTable, Flaw> {
    let mut csv = CsvRows::new(input, b',');
    let header = csv.header()?;
    let columns = Columns::find(&header, settings)?;
    let mut reader = RowReader::new(&columns, &settings.form, header.len());
    let mut rows = Vec::new();
    let mut first_lines: HashMap<String, u64> = HashMap::new();
    let mut record = ByteRecord::new();
    while csv.next(&mut record)? {
        let row = reader.row(&record)?;
        if let Some(first) = first_lines.insert(row.file.clone(), row.line) {
            let problem = FormatProblem::SameFile { line: row.line, file: shortened(&row.file), first };
            return Err(Flaw::new(row.byte, problem));
        }
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(Flaw::new(csv.byte(), FormatProblem::Nothing { what: "rows" }));
    }
    let names = reader.finish(&mut rows);
    Ok(LabelTable { rows, names, split_column: columns.part.map(|part| part.name) })
}

/// What a field of a column of labels says about the label of its image.
pub(crate) enum Mark {
    Present,
    /// By this number.
    Absent(&'static str),
    /// By an empty field.
    Empty,
}

impl Mark {
    /// Reads a field without the spaces around it; `None` if it marks nothing.
    pub(crate) fn of(text: &str) -> Option<Self> {
        Some(match text {
            "1" | "1.0" => Self::Present,
            "" => Self::Empty,
            "0" | "0.0" => Self::Absent("0"),
            "-1" | "-1.0" => Self::Absent("-1"),
            _ => return None,
        })
    }
}

/// A column of the table.
struct Column {
    name: String,
    place: usize,
}

/// The columns that are read.
struct Columns {
    file: Column,
    /// The column of labels, or one for each label.
    labels: Vec<Column>,
    part: Option<Column>,
}

impl Columns {
    fn find(header: &[String], settings: &LabelSettings) -> Result<Self, Flaw> {
        let split = match &settings.split_column {
            Some(column) => Some(column.clone()),
            None => header.iter().any(|name| name == SPLIT).then(|| SPLIT.to_owned()),
        };
        let is_other = |name: &&String| **name != settings.file_column && Some(*name) != split.as_ref();
        let labels = match &settings.form {
            LabelForm::One | LabelForm::Separated(_) => vec![settings.label_column.clone()],
            LabelForm::Columns(LabelColumns::Listed(names)) => names.clone(),
            LabelForm::Columns(LabelColumns::All) => header.iter().filter(is_other).cloned().collect(),
        };
        let wanted: Vec<String> =
            [settings.file_column.clone()].into_iter().chain(split.clone()).chain(labels).collect();
        let places = places(header, &wanted)?;
        let mut columns = wanted.into_iter().zip(places).map(|(name, place)| Column { name, place });
        let mut next = || columns.next().unwrap_or(Column { name: String::new(), place: 0 });
        // As many columns as are wanted.
        let (file, part) = (next(), split.is_some().then(&mut next));
        let labels: Vec<_> = columns.collect();
        match labels.is_empty() {
            true => Err(Flaw::new(0u64, FormatProblem::Nothing { what: "column of labels" })),
            false => Ok(Self { file, labels, part }),
        }
    }
}

/// Reads rows, and collects the labels that they name.
struct RowReader<'a> {
    columns: &'a Columns,
    form: &'a LabelForm,
    /// The fields of a row.
    width: usize,
    /// The labels so far, in order of appearance.
    names: Vec<String>,
    indices: HashMap<String, usize>,
    /// The first field that marks a label as absent by a number, and its line.
    absent: Option<(&'static str, u64)>,
}

impl<'a> RowReader<'a> {
    fn new(columns: &'a Columns, form: &'a LabelForm, width: usize) -> Self {
        let mut reader =
            Self { columns, form, width, names: Vec::new(), indices: HashMap::new(), absent: None };
        if matches!(form, LabelForm::Columns(_)) {
            for column in &columns.labels {
                reader.index(&column.name);
            }
        }
        reader
    }

    /// The index of a label.
    fn index(&mut self, label: &str) -> usize {
        if let Some(index) = self.indices.get(label) {
            return *index;
        }
        self.indices.insert(label.to_owned(), self.names.len());
        self.names.push(label.to_owned());
        self.names.len() - 1
    }

    fn row(&mut self, record: &ByteRecord) -> Result<LabelRow, Flaw> {
        let (byte, line) = record.position().map_or((0, 0), |place| (place.byte(), place.line()));
        if record.len() != self.width {
            let problem = FormatProblem::Fields { line, found: record.len(), expected: self.width };
            return Err(Flaw::new(byte, problem));
        }
        let at = |problem: FormatProblem| Flaw::new(byte, problem);
        let columns = self.columns;
        let text = |column: &Column| match std::str::from_utf8(record.get(column.place).unwrap_or_default()) {
            Ok(text) => Ok(text.trim()),
            Err(_) => Err(at(FormatProblem::NotText)),
        };
        let filled = |column: &Column| match text(column)? {
            "" => Err(at(FormatProblem::EmptyField { line, column: shortened(&column.name) })),
            text => Ok(text),
        };
        let part = match &columns.part {
            Some(column) => {
                let part = filled(column)?.to_lowercase();
                if part != "train" && !HELD_OUT.contains(&part.as_str()) {
                    let (column, text) = (shortened(&column.name), shortened(&part));
                    return Err(at(FormatProblem::Part { line, column, text }));
                }
                part
            }
            None => String::new(),
        };
        let mut labels = BTreeSet::new();
        match self.form {
            LabelForm::One => {
                labels.insert(self.index(filled(&columns.labels[0])?));
            }
            LabelForm::Separated(separator) => {
                let named = text(&columns.labels[0])?.split(separator.as_str()).map(str::trim);
                labels.extend(named.filter(|label| !label.is_empty()).map(|label| self.index(label)));
            }
            LabelForm::Columns(_) => {
                for (index, column) in columns.labels.iter().enumerate() {
                    if self.is_set(text(column)?, column, line).map_err(at)? {
                        labels.insert(index);
                    }
                }
            }
        }
        let file = filled(&columns.file)?.to_owned();
        Ok(LabelRow { file, labels: labels.into_iter().collect(), part, line, byte })
    }

    /// Whether a field of a column of labels marks the label as present.
    fn is_set(&mut self, text: &str, column: &Column, line: u64) -> Result<bool, FormatProblem> {
        let absent = match Mark::of(text) {
            Some(Mark::Present) => return Ok(true),
            Some(Mark::Empty) => return Ok(false),
            Some(Mark::Absent(mark)) => mark,
            None => {
                let (column, text) = (shortened(&column.name), shortened(text));
                return Err(FormatProblem::Mark { line, column, text });
            }
        };
        let (other, first) = *self.absent.get_or_insert((absent, line));
        match other == absent {
            true => Ok(false),
            false => {
                let column = shortened(&column.name);
                Err(FormatProblem::TwoMarks { line, column, text: absent, other, first })
            }
        }
    }

    /// The labels in order of name, by whose places the rows name them from now on.
    fn finish(self, rows: &mut [LabelRow]) -> Vec<String> {
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        order.sort_unstable_by(|one, other| self.names[*one].cmp(&self.names[*other]));
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, index)| places[*index] = place);
        for label in rows.iter_mut().flat_map(|row| row.labels.iter_mut()) {
            *label = places[*label];
        }
        rows.iter_mut().for_each(|row| row.labels.sort_unstable());
        let mut names = self.names;
        names.sort_unstable();
        names
    }
}
