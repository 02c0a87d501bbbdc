use std::collections::BTreeMap;

use csv::{ByteRecord, ReaderBuilder};

use crate::{
    Flaw, FormatProblem, OnCorrupt,
    flaw::shortened,
    input::{Input, buffer},
};

/// Some columns of a CSV file, as numbers.
#[derive(Debug)]
pub(crate) struct CsvTable {
    /// The names of the columns.
    pub(crate) names: Vec<String>,
    /// For each row the place of its numbers, counted in readable rows, or its problem.
    rows: Vec<Result<usize, BadRow>>,
    /// The numbers of the readable rows.
    values: Vec<f32>,
}

/// A skipped row. Its message is made on demand, as a file may have many.
#[derive(Clone, Copy, Debug)]
struct BadRow {
    byte: u64,
    line: u64,
    /// The index in `CsvTable::names` of the column without a number; `None` for a wrong number of fields.
    column: Option<u32>,
}

/// The selection of columns and rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CsvSelection<'a> {
    /// The names of the columns; empty for all.
    pub(crate) columns: &'a [String],
    pub(crate) delimiter: u8,
    /// Whether a row that cannot be read is an error.
    pub(crate) on_corrupt: OnCorrupt,
}

impl CsvTable {
    /// Reads a CSV file ([RFC 4180](https://www.rfc-editor.org/rfc/rfc4180)) whose first row names the columns.
    ///
    /// # Errors
    /// A column that is missing or ambiguous, no rows, and with [`OnCorrupt::Fail`] a row with another number of fields
    /// than the header or a field that is not a finite number.
    pub(crate) fn read(input: Input<'_>, wanted: CsvSelection<'_>) -> Result<Self, Flaw> {
        let mut reader = ReaderBuilder::new()
            .delimiter(wanted.delimiter)
            .has_headers(false)
            // Rows of another length are reported below, with their line.
            .flexible(true)
            .buffer_capacity(buffer(input.file_bytes()))
            .from_reader(input);
        let mut record = ByteRecord::new();
        if !reader.read_byte_record(&mut record).map_err(unreadable)? {
            return Err(Flaw::new(0u64, FormatProblem::Nothing { what: "header" }));
        }
        let header = header(&record)?;
        let places = places(&header, wanted.columns)?;
        let names = places.iter().map(|&place| header[place].clone()).collect();
        let mut table = Self { names, rows: Vec::new(), values: Vec::new() };
        while reader.read_byte_record(&mut record).map_err(unreadable)? {
            table.push(&record, &header, &places, wanted.on_corrupt)?;
        }
        match table.rows.len() {
            0 => Err(Flaw::new(reader.position().byte(), FormatProblem::Nothing { what: "rows" })),
            _ => Ok(table),
        }
    }

    fn push(
        &mut self,
        record: &ByteRecord,
        header: &[String],
        places: &[usize],
        on_corrupt: OnCorrupt,
    ) -> Result<(), Flaw> {
        let (byte, line) = record.position().map_or((0, 0), |place| (place.byte(), place.line()));
        let (found, expected) = (record.len(), header.len());
        let start = self.values.len();
        let bad = |problem: FormatProblem, column: Option<u32>| match on_corrupt {
            OnCorrupt::Fail => Err(Flaw::new(byte, problem)),
            OnCorrupt::Skip => Ok(BadRow { byte, line, column }),
        };
        if found != expected {
            let bad = bad(FormatProblem::Fields { line, found, expected }, None)?;
            self.rows.push(Err(bad));
            return Ok(());
        }
        for (column, &place) in (0u32..).zip(places) {
            let field = record.get(place).unwrap_or_default();
            match number(field) {
                Some(value) => self.values.push(value),
                None => {
                    let name = shortened(&header[place]);
                    let text = shortened(&String::from_utf8_lossy(&field[..field.len().min(200)]));
                    let bad = bad(FormatProblem::NotANumber { line, column: name, text }, Some(column))?;
                    self.values.truncate(start);
                    self.rows.push(Err(bad));
                    return Ok(());
                }
            }
        }
        self.rows.push(Ok(start / places.len().max(1)));
        Ok(())
    }

    /// The number of rows, unreadable ones included.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The numbers of a row.
    ///
    /// # Errors
    /// The problem of an unreadable row.
    pub(crate) fn row(&self, row: usize) -> Result<&[f32], String> {
        let width = self.names.len();
        match self.rows[row] {
            Ok(place) => Ok(&self.values[place * width..][..width]),
            Err(BadRow { byte, line, column }) => {
                let name = |column: u32| shortened(&self.names[column as usize]);
                let problem = match column {
                    Some(column) => format!("`{}` is not a finite number", name(column)),
                    None => "the row has a different number of fields than the header".to_owned(),
                };
                Err(format!("line {line} (byte {byte}): {problem}"))
            }
        }
    }

    /// Changes the numbers of all readable rows.
    pub(crate) fn map(&mut self, change: impl Fn(usize, f32) -> f32) {
        let width = self.names.len().max(1);
        for row in self.values.chunks_exact_mut(width) {
            for (column, value) in row.iter_mut().enumerate() {
                *value = change(column, *value);
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<f32>() + self.rows.capacity() * size_of::<Result<usize, BadRow>>()
    }
}

/// The names in the first row.
fn header(record: &ByteRecord) -> Result<Vec<String>, Flaw> {
    let name = |field: &[u8]| Some(std::str::from_utf8(field).ok()?.trim().to_owned());
    let names: Option<_> = record.iter().map(name).collect();
    let byte = record.position().map_or(0, csv::Position::byte);
    names.ok_or_else(|| Flaw::new(byte, FormatProblem::NotText))
}

/// The positions of the columns; of all if there are none.
fn places(header: &[String], columns: &[String]) -> Result<Vec<usize>, Flaw> {
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

/// A finite number.
fn number(field: &[u8]) -> Option<f32> {
    let value: f32 = std::str::from_utf8(field).ok()?.trim().parse().ok()?;
    value.is_finite().then_some(value)
}

fn unreadable(error: csv::Error) -> Flaw {
    let byte = error.position().map_or(0, csv::Position::byte);
    Flaw::new(byte, FormatProblem::Unreadable(error.into()))
}

#[cfg(test)]
mod tests {
    use oomph_core::Bytes;
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn read(text: &[u8], columns: &[&str], on_corrupt: OnCorrupt) -> Result<CsvTable, Flaw> {
        let columns: Vec<_> = columns.iter().map(|name| (*name).to_owned()).collect();
        let input = Input::new(text, text.len() as u64, Bytes::mib(1))?;
        CsvTable::read(input, CsvSelection { columns: &columns, delimiter: b',', on_corrupt })
    }

    const SERIES: &[u8] = b"\xef\xbb\xbfday, temp ,\"rain\"\n1,20.5,0\n2,21e0,1.5\n3,-4,2\n";

    #[test]
    fn columns_are_chosen_by_name() {
        let table = read(SERIES, &["rain", "temp"], OnCorrupt::Fail).expect("a whole table");
        assert_eq!(table.names, ["rain", "temp"]);
        assert_eq!(
            (0..3).map(|row| table.row(row).expect("whole")).collect::<Vec<_>>(),
            [[0.0, 20.5], [1.5, 21.0], [2.0, -4.0]]
        );
        assert_eq!(read(SERIES, &[], OnCorrupt::Fail).expect("whole").names, ["day", "temp", "rain"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_byte_and_line() {
        let check = |text: &[u8], columns: &[&str], says: &str| {
            let flaw = read(text, columns, OnCorrupt::Fail).expect_err(says);
            assert_eq!(flaw.to_string(), says);
        };
        check(b"", &[], "byte 0: the file has no header");
        check(b"a,b\n", &[], "byte 4: the file has no rows");
        check(SERIES, &["wind"], "byte 0: there is no column `wind`; the columns are `day`, `temp`, `rain`");
        check(b"a,a\n1,2\n", &["a"], "byte 0: two columns have the name `a`");
        check(b"a,b\n1,2\n3\n", &[], "byte 8: line 3: the row has 1 fields; the header has 2");
        check(b"a,b\n1,2\n3,x\n", &[], "byte 8: line 3: `b` is `x`; expected a finite number");
        check(b"a,b\n1,2\n3,inf\n", &[], "byte 8: line 3: `b` is `inf`; expected a finite number");
        check(b"a,b\n1,\n", &[], "byte 4: line 2: `b` is ``; expected a finite number");
        check(b"a,\xff\n1,2\n", &[], "byte 0: this is not UTF-8 text");
    }

    #[test]
    fn a_bad_row_can_be_passed_over() {
        let table = read(b"a,b\n1,2\n3,x\n5\n7,8\n", &["b"], OnCorrupt::Skip).expect("two rows");
        assert_eq!(table.rows(), 4);
        assert_eq!((table.row(0), table.row(3)), (Ok(&[2.0][..]), Ok(&[8.0][..])));
        assert_eq!(table.row(1), Err("line 3 (byte 8): `b` is not a finite number".to_owned()));
        assert!(table.row(2).is_err_and(|reason| reason.contains("a different number of fields")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200), skip: bool) {
            let on_corrupt = if skip { OnCorrupt::Skip } else { OnCorrupt::Fail };
            let _ = read(&bytes, &[], on_corrupt);
        }

        #[test]
        fn any_text_of_fields_is_read_or_refused(text in "[a-c0-9,.\"\n\re-]{0,80}", skip: bool) {
            let on_corrupt = if skip { OnCorrupt::Skip } else { OnCorrupt::Fail };
            let _ = read(text.as_bytes(), &[], on_corrupt);
        }
    }
}
