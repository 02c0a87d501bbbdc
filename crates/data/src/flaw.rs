use std::{io, path::PathBuf};

use oomph_core::{Bytes, grouped};

/// A data file that violates its format, with the byte of the violation.
#[derive(Debug, thiserror::Error)]
#[error("`{}`, byte {}: {}", path.display(), flaw.byte, flaw.problem)]
pub struct FormatError {
    /// The file.
    pub path: PathBuf,
    /// The violation.
    pub flaw: Flaw,
}

/// A violation of a file format and its place. In a compressed file, bytes count the decompressed content.
#[derive(Debug, thiserror::Error)]
#[error("byte {byte}: {problem}")]
pub struct Flaw {
    /// The offset in bytes.
    pub byte: u64,
    /// The problem at this place.
    pub problem: FormatProblem,
}

/// The problems that a data file can have.
#[derive(Debug, thiserror::Error)]
pub enum FormatProblem {
    /// The first bytes are those of another kind of file.
    #[error("the file begins with 0x{found:08x}; expected {expected}")]
    Magic {
        /// The first four bytes.
        found: u32,
        /// The expected bytes, in words.
        expected: &'static str,
    },
    /// The file ends too early.
    #[error("the file ends here; expected {missing} more bytes of {what}")]
    Truncated {
        /// The number of missing bytes.
        missing: u64,
        /// The missing part.
        what: &'static str,
    },
    /// Bytes after the end of the data.
    #[error("the file continues after the data that its header announces")]
    Trailing,
    /// A file without a sample.
    #[error("the file has no {what}")]
    Nothing {
        /// The missing item.
        what: &'static str,
    },
    /// Sizes whose product overflows.
    #[error("the product of the sizes {dims:?} overflows")]
    Overflow {
        /// The sizes.
        dims: Vec<u32>,
    },
    /// A file, or its decompressed content, that is larger than the limit.
    #[error("the size is {at_least} or more, above `data.max_file_bytes` of {limit}")]
    TooLarge {
        /// The smallest possible size.
        at_least: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// A label that is not a class.
    #[error("label {label} is not among the {classes} classes, which are {first} to {}", first + classes - 1)]
    Label {
        /// The label.
        label: usize,
        /// The label of the first class.
        first: usize,
        /// The number of classes.
        classes: usize,
    },
    /// A text in another encoding.
    #[error("the text is not UTF-8")]
    NotUtf8,
    /// A line that is not a JSON object.
    #[error("line {line}: this is not a JSON object: {error}")]
    NotJson {
        /// The line, from 1.
        line: u64,
        /// The reason.
        error: serde_json::Error,
    },
    /// A line of JSON without a text.
    #[error("line {line}: `{key}` is {found}; expected a text (`data.text_key`)")]
    NoText {
        /// The line, from 1.
        line: u64,
        /// The key of the text.
        key: String,
        /// What it is, in words.
        found: &'static str,
    },
    /// A line that is longer than any document.
    #[error("line {line}: the line is longer than {limit}")]
    LongLine {
        /// The line, from 1.
        line: u64,
        /// The longest line.
        limit: Bytes,
    },
    /// Bytes that cannot be read or decompressed.
    #[error("the bytes from here on cannot be read: {0}")]
    Unreadable(io::Error),
    /// Images of another size than those of the training part.
    #[error("images are {found}, but the training images are {expected}")]
    OtherSize {
        /// The size of these images.
        found: String,
        /// The size of the training images.
        expected: String,
    },
    /// Images with another number of channels than `data.channels`.
    #[error("images have {found} channels; expected {expected}")]
    Channels {
        /// Their number of channels.
        found: usize,
        /// The value of `data.channels`.
        expected: usize,
    },
    /// Labels for another number of images.
    #[error("there are {labels} labels, but `{images_file}` has {images} images")]
    Count {
        /// The number of labels.
        labels: usize,
        /// The number of images.
        images: usize,
        /// The file of the images.
        images_file: String,
    },
    /// Names for another number of classes.
    #[error("the file has {found} class names; expected {expected}")]
    Names {
        /// The number of names.
        found: usize,
        /// The number of classes.
        expected: usize,
    },
    /// Bytes that are not text.
    #[error("this is not UTF-8 text")]
    NotText,
    /// A column that does not exist.
    #[error("there is no column `{name}`; the columns are {}", columns(known))]
    NoColumn {
        /// The requested name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// Two columns with one name.
    #[error("two columns have the name `{name}`")]
    SameName {
        /// The name.
        name: String,
    },
    /// A row with another number of fields than the header.
    #[error("line {line}: the row has {found} fields; the header has {expected}")]
    Fields {
        /// The line, from 1.
        line: u64,
        /// The number of fields.
        found: usize,
        /// The number of columns.
        expected: usize,
    },
    /// A row that is longer than any row of a table.
    #[error("a row is longer than {limit}")]
    LongRow {
        /// The longest row.
        limit: Bytes,
    },
    /// Rows whose numbers do not fit into memory.
    #[error("the first {} rows take more than the {limit} of memory that are free", grouped(*rows as u64))]
    TooManyRows {
        /// The rows that were read.
        rows: usize,
        /// The free memory.
        limit: Bytes,
    },
    /// A field without a text.
    #[error("line {line}: `{column}` is empty")]
    EmptyField {
        /// The line, from 1.
        line: u64,
        /// The name of the column.
        column: String,
    },
    /// A part of the data that does not exist.
    #[error("line {line}: `{column}` is `{text}`; expected `train`, `test`, `val`, `valid` or `validation`")]
    Part {
        /// The line, from 1.
        line: u64,
        /// The name of the column.
        column: String,
        /// The field, shortened.
        text: String,
    },
    /// An image of a table of labels that does not exist.
    #[error("line {line}: there is no file `{}`", path.display())]
    NoImage {
        /// The line, from 1.
        line: u64,
        /// The path of the image.
        path: PathBuf,
    },
    /// An image with two labels.
    #[error("line {line}: `{file}` is in line {first} already")]
    SameFile {
        /// The line, from 1.
        line: u64,
        /// The image, shortened.
        file: String,
        /// The line that has it too.
        first: u64,
    },
    /// A field of a column of labels that marks nothing.
    #[error(
        "line {line}: `{column}` is `{text}`; expected `1` for an image with the label, else `0` or `-1`"
    )]
    Mark {
        /// The line, from 1.
        line: u64,
        /// The name of the column.
        column: String,
        /// The field, shortened.
        text: String,
    },
    /// Columns of labels that mark absent labels in two ways.
    #[error(
        "line {line}: `{column}` is `{text}`, but line {first} has `{other}`; expected one of both for absent labels"
    )]
    TwoMarks {
        /// The line, from 1.
        line: u64,
        /// The name of the column.
        column: String,
        /// The field.
        text: &'static str,
        /// The mark of an absent label before.
        other: &'static str,
        /// The first line that has it.
        first: u64,
    },
    /// A held-out label that no training image has.
    #[error("line {line}: no training image has the label `{label}`")]
    LabelNotTrained {
        /// The line, from 1.
        line: u64,
        /// The label, shortened.
        label: String,
    },
    /// A field that is not a number.
    #[error("line {line}: `{column}` is `{text}`; expected a finite number")]
    NotANumber {
        /// The line, from 1.
        line: u64,
        /// The name of the column.
        column: String,
        /// The field, shortened.
        text: String,
    },
}

impl Flaw {
    pub(crate) fn new(byte: impl TryInto<u64>, problem: FormatProblem) -> Self {
        // Offsets in real files are far below 2^64.
        Self { byte: byte.try_into().unwrap_or(u64::MAX), problem }
    }

    /// The error for this flaw in the file at `path`.
    pub fn in_file(self, path: impl Into<PathBuf>) -> FormatError {
        FormatError { path: path.into(), flaw: self }
    }
}

fn columns(names: &[String]) -> String {
    listed(names.iter().map(|name| format!("`{}`", shortened(name))), 12)
}

/// The first `most` names, and the number of the others.
pub(crate) fn listed(mut names: impl Iterator<Item = String>, most: usize) -> String {
    let shown = names.by_ref().take(most).collect::<Vec<_>>().join(", ");
    match names.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A text from a file, shortened for a message.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    let mut characters = text.chars();
    let shown: String = characters.by_ref().take(MOST).collect();
    if characters.next().is_some() { format!("{shown}…") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_file_and_byte() {
        let problem = FormatProblem::Label { label: 12, first: 0, classes: 10 };
        assert_eq!(
            Flaw::new(3073, problem).in_file("data/data_batch_1.bin").to_string(),
            "`data/data_batch_1.bin`, byte 3073: label 12 is not among the 10 classes, which are 0 to 9"
        );
    }

    #[test]
    fn texts_of_a_file_are_shortened() {
        assert_eq!(shortened(&"ä".repeat(50)), format!("{}…", "ä".repeat(40)));
        let names: Vec<_> = (0..14).map(|index| format!("c{index}")).collect();
        assert!(columns(&names).ends_with("`c11` and 2 more"), "{}", columns(&names));
    }
}
