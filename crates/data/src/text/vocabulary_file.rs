use std::{collections::HashSet, io::Read, path::Path};

use oomph_core::open_file;
use oomph_tokens::{Level, Vocabulary, VocabularyProblem};
use serde::Deserialize;

use crate::{DataError, SourceRecord};

/// The header of a file of weights.
#[derive(Deserialize)]
struct Header {
    #[serde(default, rename = "__metadata__")]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default, rename = "oomph.source")]
    source: Option<String>,
}

/// The vocabulary in the file at `path`: weights from `oomph export`, a checkpoint's `source.json`, or a list of tokens in
/// JSON. Of weights only the header is read.
pub(super) fn read(path: &Path, level: Level) -> Result<Vocabulary, DataError> {
    let read = || -> Result<Vocabulary, VocabularyProblem> {
        let file = open_file(path)?;
        let length = file.metadata()?.len();
        parse(file, length, level)
    };
    read().map_err(|problem| DataError::Vocabulary { path: path.to_owned(), problem })
}

/// The JSON of a file that tells tokens.
pub(super) struct RecordedJson {
    pub(super) json: Vec<u8>,
    /// Whether it is the whole file, and not the header of weights.
    pub(super) is_whole: bool,
}

/// The vocabulary in a file of `len` bytes.
pub(crate) fn parse(file: impl Read, len: u64, level: Level) -> Result<Vocabulary, VocabularyProblem> {
    let (found, tokens) = json(file, len)?.tokens()?;
    match found {
        Some(found) if found != level => return Err(VocabularyProblem::OtherLevel { found, level }),
        _ if !(2..=Vocabulary::MOST_TOKENS).contains(&tokens.len()) => {
            return Err(VocabularyProblem::Count(tokens.len()));
        }
        _ => {}
    }
    let mut seen = HashSet::new();
    match tokens.iter().find(|token| !seen.insert(token.as_str())) {
        Some(twice) => Err(VocabularyProblem::Twice(twice.clone())),
        None => Ok(Vocabulary::new(level, tokens)),
    }
}

/// The JSON in a file of `len` bytes: the whole file, or the header of weights.
pub(super) fn json(mut file: impl Read, len: u64) -> Result<RecordedJson, VocabularyProblem> {
    let mut first = [0; 8];
    let known = (len as usize).min(first.len());
    file.read_exact(&mut first[..known])?;
    let (size, start): (u64, &[u8]) = match first[..known].trim_ascii_start().first() {
        Some(b'{' | b'[') => (len, &first[..known]),
        _ if len > 8 => (u64::from_le_bytes(first), &[]),
        _ => return Err(VocabularyProblem::Unknown),
    };
    if start.is_empty() && size > len - 8 {
        return Err(if size > Vocabulary::MOST_FILE_BYTES {
            VocabularyProblem::Unknown
        } else {
            VocabularyProblem::Truncated
        });
    }
    if size > Vocabulary::MOST_FILE_BYTES {
        return Err(VocabularyProblem::TooLarge(size));
    }
    let mut json = start.to_vec();
    file.take(size - start.len() as u64).read_to_end(&mut json)?;
    Ok(RecordedJson { json, is_whole: !start.is_empty() })
}

impl RecordedJson {
    /// The tokens, with their kind if it is recorded.
    fn tokens(&self) -> Result<(Option<Level>, Vec<String>), VocabularyProblem> {
        if self.is_whole && self.json.trim_ascii_start().starts_with(b"[") {
            return Ok((None, serde_json::from_slice(&self.json).map_err(VocabularyProblem::Json)?));
        }
        let record = self.record()?;
        let tokens = record.class_names.filter(|_| record.level.is_some());
        Ok((record.level, tokens.ok_or(VocabularyProblem::NotOfText)?))
    }

    /// The record of the data that a model was trained on.
    pub(super) fn record(&self) -> Result<SourceRecord, VocabularyProblem> {
        let refused = VocabularyProblem::Json;
        if self.is_whole {
            return serde_json::from_slice(&self.json).map_err(refused);
        }
        let Header { metadata } = serde_json::from_slice(&self.json).map_err(refused)?;
        serde_json::from_str(&metadata.source.ok_or(VocabularyProblem::Silent)?).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use oomph_core::{InputSpec, SampleSpec, TargetSpec};

    use super::*;

    fn parsed(bytes: &[u8]) -> Result<Vocabulary, String> {
        parse(bytes, bytes.len() as u64, Level::Char).map_err(|problem| problem.to_string())
    }

    fn record(level: Option<Level>) -> String {
        let spec = SampleSpec {
            input: InputSpec::Tokens { steps: 4, vocabulary: 3 },
            target: TargetSpec::Tokens { steps: 4, vocabulary: 3 },
        };
        let class_names = Some(["<unk>", "b", "a"].map(str::to_owned).to_vec());
        let known = SourceRecord {
            spec,
            class_names,
            images: None,
            level,
            tokenizer: None,
            statistics: None,
            columns: None,
            digest: None,
        };
        serde_json::to_string(&known).expect("it is JSON")
    }

    fn weights(header: &str) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 12]].concat()
    }

    #[test]
    fn a_vocabulary_comes_from_a_list_a_record_or_weights() {
        let list = br#" ["<unk>", "b", "a"]"#;
        let source = serde_json::to_string(&record(Some(Level::Char))).expect("it is JSON");
        let header = format!(r#"{{"__metadata__":{{"format":"pt","oomph.source":{source}}}}}"#);
        for bytes in [list.to_vec(), record(Some(Level::Char)).into_bytes(), weights(&header)] {
            assert_eq!(parsed(&bytes).expect("a vocabulary").tokens(), ["<unk>", "b", "a"]);
        }
    }

    #[test]
    fn files_without_a_vocabulary_are_refused_with_the_reason() {
        let has = |bytes: &[u8], reason: &str| {
            let found = parsed(bytes).expect_err("no vocabulary");
            assert!(found.contains(reason), "{found:?} has no {reason:?}");
        };
        has(b"", "neither JSON nor safetensors");
        has(b"to be, or not to be", "neither JSON nor safetensors");
        has(br#"["a"]"#, "it has 1 tokens");
        has(br#"["a","b","a"]"#, "it has the token \"a\" twice");
        has(br#"["a",1]"#, "not a list of tokens");
        has(&weights("{}"), "do not list their tokens");
        has(&weights("{}")[..9], "ends within its header");
        has(record(None).as_bytes(), "not trained on text");
        has(record(Some(Level::Word)).as_bytes(), "its tokens are words");
    }
}
