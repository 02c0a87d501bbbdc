use csv::ByteRecord;
use oomph_core::Bytes;

use crate::{
    Flaw, FormatProblem, OnCorrupt,
    digest::{Digest, little_endian},
    flaw::shortened,
    input::Input,
    series::csv_rows::{CsvRows, places},
};

/// Some columns of a CSV file, as numbers.
#[derive(Debug)]
pub(crate) struct CsvTable {
    /// The names of the columns.
    pub(crate) names: Vec<String>,
    /// The number of rows, unreadable ones included.
    rows: usize,
    /// The unreadable rows, in order.
    bad: Vec<(usize, BadRow)>,
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
    /// The bytes that the table may take; `None` without a bound.
    pub(crate) most_bytes: Option<Bytes>,
}

/// Bytes of the orders of samples: those of two epochs, since batches are loaded ahead.
const ORDER_BYTES: usize = 2 * size_of::<usize>();

impl CsvTable {
    /// Reads a CSV file ([RFC 4180](https://www.rfc-editor.org/rfc/rfc4180)) whose first row names the columns.
    ///
    /// # Errors
    /// A column that is missing or ambiguous, no rows, rows that are too long or take too much memory, and with
    /// [`OnCorrupt::Fail`] a row with another number of fields than the header or a field that is not a finite number.
    pub(crate) fn read(input: Input<'_>, wanted: CsvSelection<'_>) -> Result<Self, Flaw> {
        let mut csv = CsvRows::new(input, wanted.delimiter);
        let header = csv.header()?;
        let places = places(&header, wanted.columns)?;
        let names = places.iter().map(|&place| header[place].clone()).collect();
        let mut table = Self { names, rows: 0, bad: Vec::new(), values: Vec::new() };
        let mut record = ByteRecord::new();
        while csv.next(&mut record)? {
            table.push(&record, &header, &places, wanted)?;
        }
        table.values.shrink_to_fit();
        match table.rows {
            0 => Err(Flaw::new(csv.byte(), FormatProblem::Nothing { what: "rows" })),
            _ => Ok(table),
        }
    }

    fn push(
        &mut self,
        record: &ByteRecord,
        header: &[String],
        places: &[usize],
        wanted: CsvSelection<'_>,
    ) -> Result<(), Flaw> {
        let (byte, line) = record.position().map_or((0, 0), |place| (place.byte(), place.line()));
        self.grow(wanted.most_bytes).map_err(|problem| Flaw::new(byte, problem))?;
        let (found, expected) = (record.len(), header.len());
        let start = self.values.len();
        let bad = |problem: FormatProblem, column: Option<u32>| match wanted.on_corrupt {
            OnCorrupt::Fail => Err(Flaw::new(byte, problem)),
            OnCorrupt::Skip => Ok(BadRow { byte, line, column }),
        };
        let row = self.rows;
        self.rows += 1;
        if found != expected {
            self.bad.push((row, bad(FormatProblem::Fields { line, found, expected }, None)?));
            return Ok(());
        }
        for (column, &place) in (0u32..).zip(places) {
            let field = record.get(place).unwrap_or_default();
            let Some(value) = number(field) else {
                let name = shortened(&header[place]);
                let text = shortened(&String::from_utf8_lossy(&field[..field.len().min(200)]));
                self.values.truncate(start);
                let bad = bad(FormatProblem::NotANumber { line, column: name, text }, Some(column))?;
                self.bad.push((row, bad));
                return Ok(());
            };
            self.values.push(value);
        }
        Ok(())
    }

    /// Makes room for one more row, within the bytes that the table may take.
    fn grow(&mut self, most_bytes: Option<Bytes>) -> Result<(), FormatProblem> {
        let width = self.names.len();
        let is_full =
            self.values.capacity() - self.values.len() < width || self.bad.capacity() == self.bad.len();
        if !is_full {
            return Ok(());
        }
        // A vector doubles when it grows.
        let doubled = self.bytes() * 2 + width * size_of::<f32>();
        let needed = (doubled + self.rows * ORDER_BYTES) as u64;
        if let Some(limit) = most_bytes.filter(|limit| needed > limit.get()) {
            return Err(FormatProblem::TooManyRows { rows: self.rows, limit });
        }
        self.values.reserve(width);
        self.bad.reserve(1);
        Ok(())
    }

    /// The number of rows, unreadable ones included.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The numbers of a row.
    ///
    /// # Errors
    /// The problem of an unreadable row.
    pub(crate) fn row(&self, row: usize) -> Result<&[f32], String> {
        let width = self.names.len();
        let before = match self.bad.binary_search_by_key(&row, |(bad, _)| *bad) {
            Err(before) => before,
            Ok(found) => {
                let BadRow { byte, line, column } = self.bad[found].1;
                let name = |column: u32| shortened(&self.names[column as usize]);
                let problem = match column {
                    Some(column) => format!("`{}` is not a finite number", name(column)),
                    None => "the row has a different number of fields than the header".to_owned(),
                };
                return Err(format!("line {line} (byte {byte}): {problem}"));
            }
        };
        Ok(&self.values[(row - before) * width..][..width])
    }

    /// A digest of the columns' names, of the numbers, and of the places of unreadable rows.
    pub(crate) fn digest(&self) -> String {
        let mut digest = Digest::new();
        self.names.iter().for_each(|name| digest.add(name.as_bytes()));
        self.bad.iter().for_each(|(row, _)| digest.add(&(*row as u64).to_le_bytes()));
        for values in self.values.chunks(1 << 14) {
            digest.add(&little_endian(values.iter().map(|value| value.to_le_bytes())));
        }
        digest.finish()
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
        self.values.capacity() * size_of::<f32>() + self.bad.capacity() * size_of::<(usize, BadRow)>()
    }
}

/// A finite number.
fn number(field: &[u8]) -> Option<f32> {
    let value: f32 = std::str::from_utf8(field).ok()?.trim().parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn read(text: &[u8], columns: &[&str], on_corrupt: OnCorrupt) -> Result<CsvTable, Flaw> {
        let columns: Vec<_> = columns.iter().map(|name| (*name).to_owned()).collect();
        let input = Input::new(text, text.len() as u64, Bytes::mib(1))?;
        CsvTable::read(
            input,
            CsvSelection { columns: &columns, delimiter: b',', on_corrupt, most_bytes: None },
        )
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

    #[test]
    fn the_memory_of_rows_is_bounded_and_few_bytes_a_number() {
        let text = "a\n".to_owned() + &"1\n".repeat(100_000);
        let input = || Input::new(text.as_bytes(), text.len() as u64, Bytes::mib(1)).expect("small");
        let wanted = |most| CsvSelection {
            columns: &[],
            delimiter: b',',
            on_corrupt: OnCorrupt::Fail,
            most_bytes: Some(Bytes::new(most)),
        };
        let table = CsvTable::read(input(), wanted(4 << 20)).expect("it fits");
        assert!(table.bytes() < 100_000 * 5, "{}", table.bytes());
        let flaw = CsvTable::read(input(), wanted(100 << 10)).expect_err("it does not fit");
        assert!(
            flaw.to_string().contains("rows take more than the 100 KiB of memory that are free"),
            "{flaw}"
        );
    }

    #[test]
    fn a_row_that_never_ends_is_refused() {
        let text = "a\n1\n".to_owned() + &"2".repeat(20 << 20);
        let input = Input::new(text.as_bytes(), text.len() as u64, Bytes::mib(100)).expect("small");
        let wanted =
            CsvSelection { columns: &[], delimiter: b',', on_corrupt: OnCorrupt::Skip, most_bytes: None };
        let flaw = CsvTable::read(input, wanted).expect_err("a long row");
        assert!(flaw.to_string().contains("a row is longer than 16.0 MiB"), "{flaw}");
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
