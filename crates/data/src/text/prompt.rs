use oomph_core::{Key, SampleSpec, Split};

use crate::{Sample, SampleError, Source, SourceRecord};

/// The start of a text that a trained model continues: a source without samples.
#[derive(Clone, Debug)]
pub struct Prompt {
    spec: SampleSpec,
    tokens: Vec<i32>,
}

impl Prompt {
    /// `text` in the tokens of the recorded source; `None` if that source is not text.
    pub fn new(record: &SourceRecord, text: &str) -> Option<Self> {
        let tokens = record.vocabulary()?.encode(text);
        Some(Self { spec: record.spec.clone(), tokens })
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
