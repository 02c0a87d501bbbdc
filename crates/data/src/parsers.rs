//! The parsers of data files over bytes in memory: what `cargo xtask fuzz-parsers` feeds. Not part of the interface.
//!
//! Their errors are bytes that they refuse.

use std::ops::ControlFlow;

use oomph_core::Bytes;
use oomph_parquet::ColumnError;
use oomph_tokens::{Level, VocabularyProblem};

use crate::{
    Flaw, OnCorrupt,
    cifar10::{self, CLASSES},
    folder::{decode_statistics, parse_labels, pixels},
    idx::{Content, Idx},
    input::Input,
    memory_images::{ImagePart, LabelRule},
    series::{CsvSelection, CsvTable},
    text::{corpus, documents, vocabulary_file},
};

/// The largest size of a file, plain or decompressed.
const LIMIT: Bytes = Bytes::mib(16);

fn input(bytes: &[u8]) -> Result<Input<'_>, Flaw> {
    Input::new(bytes, bytes.len() as u64, LIMIT)
}

fn on_corrupt(skip: bool) -> OnCorrupt {
    if skip { OnCorrupt::Skip } else { OnCorrupt::Fail }
}

/// Images in an IDX file, plain or gzip.
pub fn idx_images(bytes: &[u8]) -> Result<(), Flaw> {
    Idx::read(input(bytes)?, Content::IMAGES).map(drop)
}

/// Labels in an IDX file, plain or gzip.
pub fn idx_labels(bytes: &[u8]) -> Result<(), Flaw> {
    Idx::read(input(bytes)?, Content::LABELS).map(drop)
}

/// A file in CIFAR-10's binary format, skipping or refusing wrong labels.
pub fn cifar10(bytes: &[u8], skip: bool) -> Result<(), Flaw> {
    let rule = LabelRule { first: 0, classes: CLASSES, on_corrupt: on_corrupt(skip) };
    cifar10::read(input(bytes)?, "x".to_owned(), rule, &mut ImagePart::default())
}

/// The names of CIFAR-10's classes.
pub fn cifar10_names(bytes: &[u8]) -> Result<(), Flaw> {
    cifar10::class_names(bytes).map(drop)
}

/// All columns of a CSV file, skipping or refusing wrong rows.
pub fn csv(bytes: &[u8], skip: bool) -> Result<(), Flaw> {
    let wanted =
        CsvSelection { columns: &[], delimiter: b',', on_corrupt: on_corrupt(skip), most_bytes: None };
    let table = CsvTable::read(input(bytes)?, wanted)?;
    (0..table.rows()).for_each(|row| drop(table.row(row)));
    Ok(())
}

/// A table of labels with the column `file`, and the column `label` or one for each label.
pub fn labels(bytes: &[u8]) -> Result<(), Flaw> {
    parse_labels(|| input(bytes))
}

/// A text, plain or gzip.
pub fn text(bytes: &[u8]) -> Result<(), Flaw> {
    corpus::decode(input(bytes)?).map(drop)
}

/// A text in pieces, plain or gzip.
pub fn text_pieces(bytes: &[u8]) -> Result<(), Flaw> {
    documents::plain(input(bytes)?, &mut |_| ControlFlow::Continue(()))
}

/// JSON lines with a text each, plain or gzip.
pub fn json_lines(bytes: &[u8]) -> Result<(), Flaw> {
    documents::json_lines(input(bytes)?, "text", &mut |_| ControlFlow::Continue(()))
}

/// The texts in the column `text` of a Parquet file.
pub fn parquet(bytes: &[u8]) -> Result<(), ColumnError> {
    oomph_parquet::visit(bytes.to_vec(), "text", LIMIT, &mut |_| ControlFlow::Continue(()))
}

/// A JPEG or PNG; whether it has pixels.
pub fn image(bytes: &[u8]) -> bool {
    pixels(bytes).is_ok()
}

/// A file of the cache with the statistics of images of three channels.
pub fn statistics(bytes: &[u8]) -> bool {
    decode_statistics(bytes, "fingerprint", 3).is_some()
}

/// A file with a vocabulary.
pub fn vocabulary(bytes: &[u8]) -> Result<(), VocabularyProblem> {
    vocabulary_file::parse(bytes, bytes.len() as u64, Level::Char).map(drop)
}
