use std::collections::BTreeMap;

use csv::{ByteRecord, Reader, ReaderBuilder};

use super::row_reader::{RowBudget, RowReader};
use crate::{
    Flaw, FormatProblem,
    flaw::shortened,
    input::{Input, buffer},
};

/// The rows of a CSV file ([RFC 4180](https://www.rfc-editor.org/rfc/rfc4180)). The first row names the columns.
pub(crate) struct CsvRows<'a> {
    reader: Reader<RowReader<'a>>,
    left: RowBudget,
}

impl<'a> CsvRows<'a> {
    pub(crate) fn new(input: Input<'a>, delimiter: u8) -> Self {
        let (buffer, rows) = (buffer(input.file_bytes()), RowReader::new(input));
        let left = rows.left();
        let reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            // Rows of another length are reported by the caller, with their line.
            .flexible(true)
            .buffer_capacity(buffer)
            .from_reader(rows);
        Self { reader, left }
    }

    /// Reads the next row; `false` after the last one.
    ///
    /// # Errors
    /// A row that cannot be read, or is too long.
    pub(crate) fn next(&mut self, record: &mut ByteRecord) -> Result<bool, Flaw> {
        self.left.renew();
        self.reader.read_byte_record(record).map_err(unreadable)
    }

    /// Reads the first row: the names of the columns.
    ///
    /// # Errors
    /// There is none, or it is no text.
    pub(crate) fn header(&mut self) -> Result<Vec<String>, Flaw> {
        let mut record = ByteRecord::new();
        if !self.next(&mut record)? {
            return Err(Flaw::new(0u64, FormatProblem::Nothing { what: "header" }));
        }
        let name = |field: &[u8]| Some(std::str::from_utf8(field).ok()?.trim().to_owned());
        let names: Option<_> = record.iter().map(name).collect();
        let byte = record.position().map_or(0, csv::Position::byte);
        names.ok_or_else(|| Flaw::new(byte, FormatProblem::NotText))
    }

    /// The byte after the last row that was read.
    pub(crate) fn byte(&self) -> u64 {
        self.reader.position().byte()
    }
}

/// The positions of the columns in a header; of all if `columns` is empty.
///
/// # Errors
/// A column that is missing or ambiguous.
pub(crate) fn places(header: &[String], columns: &[String]) -> Result<Vec<usize>, Flaw> {
    let flaw = |problem| Flaw::new(0u64, problem);
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    let all = columns.is_empty();
    for (place, name) in header.iter().enumerate() {
        let is_second = by_name.insert(name, place).is_some();
        if is_second && (all || columns.contains(name)) {
            return Err(flaw(FormatProblem::SameName { name: shortened(name) }));
        }
    }
    if all {
        return Ok((0..header.len()).collect());
    }
    let place = |name: &String| {
        let missing = || {
            let known = header.iter().take(100).map(|name| shortened(name)).collect();
            flaw(FormatProblem::NoColumn { name: shortened(name), known })
        };
        by_name.get(name.as_str()).copied().ok_or_else(missing)
    };
    columns.iter().map(place).collect()
}

fn unreadable(error: csv::Error) -> Flaw {
    let byte = error.position().map_or(0, csv::Position::byte);
    Flaw::new(byte, FormatProblem::Unreadable(error.into()))
}
