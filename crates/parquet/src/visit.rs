use std::{ops::ControlFlow, sync::Arc};

use oomph_core::Bytes;
use parquet::{
    basic::{Compression, Encoding, Type},
    column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader},
    data_type::{ByteArray, ByteArrayType},
    file::{
        metadata::ColumnChunkMetaData,
        reader::{FileReader, RowGroupReader, SerializedFileReader},
    },
    schema::types::{ColumnDescPtr, SchemaDescriptor},
};

use crate::{ColumnError, ColumnProblem, ReadAt, chunks::Chunks, error::caught, footer, pages::CheckedPages};

/// Rows that are decoded at a time.
const ROWS: usize = 256;

/// The largest page, unpacked.
const MOST_PAGE: Bytes = Bytes::mib(512);

/// What a text counts beside its bytes: a page of some bytes may announce a billion empty ones.
const OF_TEXT: u64 = 16;

/// Passes the text of each row to `each`, which says whether it wants more. `column` is a name, or names with a point between
/// them for a column within others.
///
/// It holds a page and a dictionary, packed and unpacked, of a column of one row group.
///
/// # Errors
/// A file that is no Parquet file or is damaged, a column that is missing or holds no texts, a row that is null, and texts of
/// more than `limit` together.
pub fn visit(
    file: impl ReadAt,
    column: &str,
    limit: Bytes,
    each: &mut dyn FnMut(&str) -> ControlFlow<()>,
) -> Result<(), ColumnError> {
    footer::check(&file)?;
    let chunks = Chunks { file: Arc::new(file), most_page: limit.min(MOST_PAGE) };
    let reader = caught(|| SerializedFileReader::new(chunks));
    let reader = reader.map_err(|reason| ColumnProblem::Footer { reason })?;
    let (index, descriptor) = find(reader.metadata().file_metadata().schema_descr(), column)?;
    let mut left = limit.get();
    for number in 0..reader.num_row_groups() {
        let at = |row, problem| ColumnError { row_group: Some(number), row, problem };
        let group =
            caught(|| reader.get_row_group(number)).map_err(|reason| at(None, damaged(column, reason)))?;
        let mut texts =
            Texts::open(&*group, index, &descriptor, column).map_err(|problem| at(None, problem))?;
        while let Some(batch) = texts.next_rows().map_err(|problem| at(Some(texts.row), problem))? {
            for text in batch {
                let row = texts.row;
                let text =
                    text.ok_or_else(|| at(Some(row), ColumnProblem::Null { column: column.to_owned() }))?;
                left = left
                    .checked_sub(text.len() as u64 + OF_TEXT)
                    .ok_or_else(|| at(Some(row), ColumnProblem::TooLarge { limit }))?;
                let text = std::str::from_utf8(text.data())
                    .map_err(|_| at(Some(row), ColumnProblem::NotUtf8 { column: column.to_owned() }))?;
                if each(text).is_break() {
                    return Ok(());
                }
                texts.row += 1;
            }
        }
    }
    Ok(())
}

/// The column of this name: its index and its description.
fn find(schema: &SchemaDescriptor, column: &str) -> Result<(usize, ColumnDescPtr), ColumnProblem> {
    let columns = schema.columns();
    let Some(index) = columns.iter().position(|known| known.path().string() == column) else {
        let known = columns.iter().map(|known| known.path().string()).collect();
        return Err(ColumnProblem::Missing { column: column.to_owned(), known });
    };
    let descriptor = columns[index].clone();
    let found = match descriptor.physical_type() {
        _ if descriptor.max_rep_level() > 0 => "lists".to_owned(),
        Type::BYTE_ARRAY => return Ok((index, descriptor)),
        other => other.to_string(),
    };
    Err(ColumnProblem::NotText { column: column.to_owned(), found })
}

fn damaged(column: &str, reason: String) -> ColumnProblem {
    ColumnProblem::Damaged { column: column.to_owned(), reason }
}

/// The texts of a row group.
struct Texts<'a> {
    column: &'a str,
    reader: ColumnReaderImpl<ByteArrayType>,
    /// The level of a row that is not null.
    level: i16,
    /// The next row.
    row: u64,
    rows: u64,
}

impl<'a> Texts<'a> {
    fn open(
        group: &dyn RowGroupReader,
        index: usize,
        descriptor: &ColumnDescPtr,
        column: &'a str,
    ) -> Result<Self, ColumnProblem> {
        let metadata = group.metadata();
        let Some(chunk) = metadata.columns().get(index) else {
            return Err(damaged(column, "the row group lacks it".to_owned()));
        };
        check(chunk, column)?;
        let rows = u64::try_from(metadata.num_rows())
            .map_err(|_| damaged(column, format!("it announces {} rows", metadata.num_rows())))?;
        let level = descriptor.max_def_level();
        let reader = caught(|| {
            let pages = CheckedPages { pages: group.get_column_page_reader(index)?, has_levels: level > 0 };
            Ok(get_column_reader(descriptor.clone(), Box::new(pages)))
        });
        match reader.map_err(|reason| damaged(column, reason))? {
            ColumnReader::ByteArrayColumnReader(reader) => Ok(Self { column, reader, level, row: 0, rows }),
            // `find` returns columns of byte arrays alone.
            _ => Err(damaged(column, "it holds no texts".to_owned())),
        }
    }

    /// The texts of some rows; `None` at the end of the row group.
    fn next_rows(&mut self) -> Result<Option<Vec<Option<ByteArray>>>, ColumnProblem> {
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let (reader, level) = (&mut self.reader, self.level);
        let rows = caught(|| {
            let (rows, ..) = reader.read_records(ROWS, Some(&mut levels), None, &mut values)?;
            let mut values = values.into_iter();
            let is_known = |row: usize| level == 0 || levels.get(row) == Some(&level);
            let mut text = |row| if is_known(row) { values.next() } else { None };
            let rows: Vec<_> = (0..rows).map(&mut text).collect();
            // It panics on a text that the decoder left out.
            rows.iter().flatten().for_each(|text: &ByteArray| {
                let _ = text.data();
            });
            Ok(rows)
        });
        let rows = rows.map_err(|reason| damaged(self.column, reason))?;
        let announced =
            |found| damaged(self.column, format!("it has {found} rows; its row group has {}", self.rows));
        match rows.len() as u64 {
            0 if self.row == self.rows => Ok(None),
            0 => Err(announced(self.row.to_string())),
            more if self.row + more > self.rows => Err(announced(format!("more than {}", self.row))),
            _ => Ok(Some(rows)),
        }
    }
}

/// Checks that the decoder knows compression and encodings.
fn check(chunk: &ColumnChunkMetaData, column: &str) -> Result<(), ColumnProblem> {
    let compression = chunk.compression();
    if !matches!(
        compression,
        Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::GZIP(_) | Compression::ZSTD(_)
    ) {
        let found = compression.to_string();
        return Err(ColumnProblem::Compression { column: column.to_owned(), found });
    }
    let other = chunk.encodings().find(|encoding| !is_of_texts(*encoding) && !is_of_levels(*encoding));
    other.map_or(Ok(()), |found| {
        Err(ColumnProblem::Encoding { column: column.to_owned(), found: found.to_string() })
    })
}

/// Whether a page of texts may have this encoding. A decoder of another may allocate what its bytes announce.
pub(crate) fn is_of_texts(encoding: Encoding) -> bool {
    matches!(
        encoding,
        Encoding::PLAIN
            | Encoding::RLE_DICTIONARY
            | Encoding::PLAIN_DICTIONARY
            | Encoding::DELTA_LENGTH_BYTE_ARRAY
    )
}

#[expect(deprecated, reason = "old files have levels in this encoding")]
fn is_of_levels(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::RLE | Encoding::BIT_PACKED)
}
