use std::{ops::ControlFlow, path::Path};

use oomph_core::Bytes;
use oomph_tokens::{Trained, Trainer};

use super::{
    corpus::{Reading, files},
    documents::{TextPart, visit},
};
use crate::DataError;

/// Learns a tokenizer of `size` tokens from a file or folder of texts, as the source `text` reads them. `text_key` is the key of
/// the text in JSON lines.
///
/// # Errors
/// A text that cannot be read, and one without a character.
///
/// # Panics
/// If `size` is below 257 or above 2²⁴.
pub fn train_tokenizer(
    path: &Path,
    text_key: &str,
    max_file_bytes: Bytes,
    size: usize,
) -> Result<Trained, DataError> {
    let reading = Reading { text_key: text_key.to_owned(), max_file_bytes };
    let files = files(path)?;
    let mut trainer = Trainer::new();
    for file in &files {
        visit(file, &reading, &mut |part| {
            if let TextPart::Text(text) = part {
                trainer.add(text);
            }
            ControlFlow::Continue(())
        })?;
    }
    let trained = trainer.train(size);
    match trained.bytes {
        0 => Err(DataError::EmptyText { path: path.to_owned() }),
        _ => Ok(trained),
    }
}
