use std::{io, path::PathBuf};

use oomph_core::Bytes;

/// A data file that is not what its format says, and the byte at which that shows.
#[derive(Debug, thiserror::Error)]
#[error("`{}`, byte {}: {}", path.display(), flaw.byte, flaw.problem)]
pub struct FormatError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub flaw: Flaw,
}

/// What is wrong with a file, and where in it. Of a packed file the bytes are those of what was packed.
#[derive(Debug, thiserror::Error)]
#[error("byte {byte}: {problem}")]
pub struct Flaw {
    /// How many bytes come before the place.
    pub byte: u64,
    /// What is wrong there.
    pub problem: FormatProblem,
}

/// What can be wrong with a data file.
#[derive(Debug, thiserror::Error)]
pub enum FormatProblem {
    /// The first bytes are those of another kind of file.
    #[error("it begins with 0x{found:08x}; expected {expected}")]
    Magic {
        /// The first four bytes.
        found: u32,
        /// What was expected, in words.
        expected: &'static str,
    },
    /// The file ends too early.
    #[error("the file ends here; expected {missing} more bytes of {what}")]
    Truncated {
        /// How many bytes are missing.
        missing: u64,
        /// Of what.
        what: &'static str,
    },
    /// The file goes on where it should end.
    #[error("the file goes on after all that its header asks for")]
    Trailing,
    /// A file without a sample.
    #[error("it holds no {what}")]
    Nothing {
        /// What it lacks.
        what: &'static str,
    },
    /// Sizes whose product no computer can count.
    #[error("{dims:?} come to more bytes than can be counted")]
    Overflow {
        /// The sizes.
        dims: Vec<u32>,
    },
    /// A file, or what it unpacks to, is larger than the user allows.
    #[error("it has {at_least} or more, above `data.max_file_bytes` of {limit}")]
    TooLarge {
        /// What it is known to have.
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
        /// How many classes there are.
        classes: usize,
    },
    /// Packed data that cannot be unpacked, or bytes that cannot be read.
    #[error("the bytes from here on cannot be read: {0}")]
    Unreadable(io::Error),
    /// Images of another size than those of the training part.
    #[error("images are {found}, but those to train on are {expected}")]
    OtherSize {
        /// The size of these.
        found: String,
        /// The size of the others.
        expected: String,
    },
    /// Images with another number of channels than the user says.
    #[error("images have {found} channels; expected {expected}")]
    Channels {
        /// How many they have.
        found: usize,
        /// What `data.channels` says.
        expected: usize,
    },
    /// Labels for another number of images.
    #[error("there are {labels} labels, but `{images_file}` has {images} images")]
    Count {
        /// How many labels there are.
        labels: usize,
        /// How many images there are.
        images: usize,
        /// The file of the images.
        images_file: String,
    },
    /// Names for another number of classes.
    #[error("there are {found} names of classes; expected {expected}")]
    Names {
        /// How many names there are.
        found: usize,
        /// How many classes there are.
        expected: usize,
    },
    /// Bytes that are not text.
    #[error("this is not UTF-8 text")]
    NotText,
    /// A column that is not there.
    #[error("there is no column `{name}`; there are {}", listed(known))]
    NoColumn {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// Two columns of one name.
    #[error("two columns are called `{name}`")]
    SameName {
        /// The name.
        name: String,
    },
    /// A row that lacks fields.
    #[error("line {line}: the row has {found} fields, the header {expected}")]
    Fields {
        /// The line, from 1.
        line: u64,
        /// How many fields there are.
        found: usize,
        /// How many columns there are.
        expected: usize,
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
        // Places in files that can be read are far below 2^64.
        Self { byte: byte.try_into().unwrap_or(u64::MAX), problem }
    }

    /// Names the file.
    pub fn in_file(self, path: impl Into<PathBuf>) -> FormatError {
        FormatError { path: path.into(), flaw: self }
    }
}

/// Some names in backticks.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{}`", shortened(name))).collect();
    let more = names.len().saturating_sub(SHOWN);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// A text of a file, short enough for a message.
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
    fn what_is_shown_of_a_file_is_short() {
        assert_eq!(shortened(&"ä".repeat(50)), format!("{}…", "ä".repeat(40)));
        let names: Vec<_> = (0..14).map(|index| format!("c{index}")).collect();
        assert!(listed(&names).ends_with("`c11` and 2 more"), "{}", listed(&names));
    }
}
