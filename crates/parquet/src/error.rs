use std::{any::Any, fmt, panic::AssertUnwindSafe};

use oomph_core::Bytes;
use parquet::errors::ParquetError;

/// Why a column cannot be read, and where.
#[derive(Debug, thiserror::Error)]
#[error("{}{problem}", place(*.row_group, *.row))]
pub struct ColumnError {
    /// The row group, from 0.
    pub row_group: Option<usize>,
    /// The row within its row group, from 0.
    pub row: Option<u64>,
    /// What is wrong.
    pub problem: ColumnProblem,
}

/// What is wrong with a file or its column.
#[derive(Debug, thiserror::Error)]
pub enum ColumnProblem {
    /// Another kind of file, or one that was cut.
    #[error("this is not a Parquet file: it does not {place} with `PAR1`")]
    NotParquet {
        /// Where the mark is missing.
        place: &'static str,
    },
    /// A footer that contradicts itself.
    #[error("the footer is damaged: {reason}")]
    Footer {
        /// Why.
        reason: String,
    },
    /// A column that is not there.
    #[error("there is no column `{column}`; the columns are {}", listed(.known))]
    Missing {
        /// The column.
        column: String,
        /// The columns that are there.
        known: Vec<String>,
    },
    /// A column of numbers or the like.
    #[error("the column `{column}` holds {found}; expected texts")]
    NotText {
        /// The column.
        column: String,
        /// What it holds.
        found: String,
    },
    /// A compression that this crate does not read.
    #[error("the column `{column}` is compressed by {found}; expected snappy, zstd, gzip or none")]
    Compression {
        /// The column.
        column: String,
        /// The compression.
        found: String,
    },
    /// An encoding that this crate does not read.
    #[error(
        "the column `{column}` has the encoding {found}; expected PLAIN, RLE_DICTIONARY or DELTA_LENGTH_BYTE_ARRAY"
    )]
    Encoding {
        /// The column.
        column: String,
        /// The encoding.
        found: String,
    },
    /// A row without a text.
    #[error("`{column}` is null; expected a text")]
    Null {
        /// The column.
        column: String,
    },
    /// A text in another encoding.
    #[error("`{column}` is not UTF-8")]
    NotUtf8 {
        /// The column.
        column: String,
    },
    /// More text than the limit, or a page that is larger.
    #[error("the texts take more than {limit}")]
    TooLarge {
        /// The limit.
        limit: Bytes,
    },
    /// Pages that cannot be decoded.
    #[error("the column `{column}` is damaged: {reason}")]
    Damaged {
        /// The column.
        column: String,
        /// Why.
        reason: String,
    },
}

impl ColumnError {
    /// What can be done.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match &self.problem {
            ColumnProblem::Compression { .. } => {
                "write the file again, by pyarrow with `compression=\"zstd\"`"
            }
            ColumnProblem::Encoding { .. } => "write the file again, by pyarrow without `column_encoding`",
            ColumnProblem::Null { .. } => "remove the rows without a text, or give them an empty one",
            _ => return None,
        })
    }
}

impl From<ColumnProblem> for ColumnError {
    fn from(problem: ColumnProblem) -> Self {
        Self { row_group: None, row: None, problem }
    }
}

/// `row group 1, row 7: `.
fn place(row_group: Option<usize>, row: Option<u64>) -> impl fmt::Display {
    let row_group = row_group.map(|group| format!("row group {group}"));
    let row = row.map(|row| format!("row {row}"));
    let places: Vec<_> = row_group.into_iter().chain(row).collect();
    if places.is_empty() { String::new() } else { format!("{}: ", places.join(", ")) }
}

/// The first names, and the number of the others.
fn listed(names: &[String]) -> String {
    const MOST: usize = 12;
    let shown: Vec<_> = names.iter().take(MOST).map(|name| format!("`{}`", shortened(name))).collect();
    match names.len().saturating_sub(MOST) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A text of the file, shortened for a message.
fn shortened(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The result of the decoder, whose panics are errors too: it has assertions about the file.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    match std::panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| reason(&error)),
        Err(panic) => Err(shortened(message(&*panic))),
    }
}

fn reason(error: &ParquetError) -> String {
    let text = match error {
        ParquetError::General(text) | ParquetError::NYI(text) | ParquetError::EOF(text) => text.clone(),
        other => other.to_string(),
    };
    shortened(text.trim_end_matches('.'))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("the decoder failed")
}
