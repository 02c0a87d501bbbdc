use oomph_core::{Key, SampleSpec, Split};

use super::Vocabulary;
use crate::{Sample, SampleError, Source, SourceRecord};

/// The start of a text that a trained model continues: a source without samples.
#[derive(Clone, Debug)]
pub struct Prompt {
    spec: SampleSpec,
    tokens: Vec<i32>,
    unknown: Option<i32>,
}

impl Prompt {
    /// `text` in the tokens of the recorded source; `None` if that source is not text.
    pub fn new(record: &SourceRecord, text: &str) -> Option<Self> {
        let vocabulary = record.vocabulary()?;
        let unknown = vocabulary.tokens().iter().position(|token| token == Vocabulary::UNKNOWN);
        let unknown = unknown.and_then(|index| i32::try_from(index).ok());
        Some(Self { spec: record.spec.clone(), tokens: vocabulary.encode(text), unknown })
    }

    /// The index of the token that stands for all others. It is no text, so no text continues with it.
    pub fn unknown(&self) -> Option<i32> {
        self.unknown
    }

    /// The indices of the tokens.
    pub fn tokens(&self) -> &[i32] {
        &self.tokens
    }
}

impl Source for Prompt {
    fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    fn len(&self, _: Split) -> usize {
        0
    }

    fn is_continuous(&self) -> bool {
        true
    }

    fn sample(&self, split: Split, index: usize, _: Option<Key>) -> Result<Sample, SampleError> {
        Err(SampleError::new(format!("{split} sample {index}"), "a prompt has no samples"))
    }
}
