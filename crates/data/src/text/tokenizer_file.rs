use std::{
    io,
    path::{Path, PathBuf},
};

use oomph_core::open_file;
use oomph_tokens::{Tokenizer, TokenizerError, TokenizerProblem, VocabularyProblem};

use super::{
    settings::TextSettings,
    vocabulary_file::{self, RecordedJson},
};
use crate::DataError;

impl TextSettings {
    /// The tokenizer of `data.tokenizer`. Where it is not there, the recorded one.
    pub(super) fn tokenizer(&self, recorded: Option<&Tokenizer>) -> Result<Tokenizer, DataError> {
        let read = self.tokenizer.as_deref().map_or(Err(DataError::NoTokenizer { path: None }), read);
        match (read, recorded) {
            (Err(DataError::NoTokenizer { .. }), Some(recorded)) => Ok(recorded.clone()),
            (read, _) => read,
        }
    }
}

/// The tokenizer in the file at `path`: a `tokenizer.json`, a checkpoint's `source.json`, or weights from `oomph export`.
fn read(path: &Path) -> Result<Tokenizer, DataError> {
    let at = || PathBuf::from(path);
    let file = match open_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(DataError::NoTokenizer { path: Some(at()) });
        }
        opened => opened.and_then(|file| Ok((file.metadata()?.len(), file))),
    };
    let found = file.map_err(VocabularyProblem::Io).and_then(|(len, file)| vocabulary_file::json(file, len));
    let found = found.map_err(|problem| DataError::RecordedTokenizer { path: at(), problem })?;
    let RecordedJson { json, is_whole } = &found;
    let refused = match is_whole {
        true => match Tokenizer::parse(json) {
            Ok(tokenizer) => return Ok(tokenizer),
            Err(problem) => Some(problem),
        },
        false => None,
    };
    match (found.record(), refused) {
        (Ok(record), _) => record.tokenizer.ok_or(VocabularyProblem::NoTokenizer),
        // Neither: the reason is that of the more likely file.
        (Err(_), Some(problem)) => return Err(refuse(path, problem)),
        (Err(problem), None) => Err(problem),
    }
    .map_err(|problem| DataError::RecordedTokenizer { path: at(), problem })
}

fn refuse(path: &Path, problem: TokenizerProblem) -> DataError {
    Box::new(TokenizerError { path: path.to_owned(), problem }).into()
}
