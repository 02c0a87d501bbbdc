use oomph_core::{Key, SampleSpec, Split};

use crate::{Sample, SampleError, Source, SourceRecord};

/// The start of a text that a trained model continues: a source without samples.
#[derive(Clone, Debug)]
pub struct Prompt {
    spec: SampleSpec,
    tokens: Vec<i32>,
    unknown: Option<i32>,
    end: Option<i32>,
}

impl Prompt {
    /// `text` in the tokens of the recorded source; `None` if that source is not text. An empty text is the token that ends a
    /// document, or else the unknown one.
    pub fn new(record: &SourceRecord, text: &str) -> Option<Self> {
        let encoding = record.text_encoding()?;
        let (unknown, end) = (encoding.unknown(), encoding.end_of_document());
        let mut tokens = encoding.encode(text);
        if tokens.is_empty() {
            tokens.push(end.or(unknown).unwrap_or(0));
        }
        Some(Self { spec: record.spec.clone(), tokens, unknown, end })
    }

    /// The index of the token that ends a document. A text ends with it.
    pub fn end_of_document(&self) -> Option<i32> {
        self.end
    }

    /// The index of the token that stands for all others. It is no text, so no text continues with it.
    pub fn unknown(&self) -> Option<i32> {
        self.unknown
    }

    /// The indices of the tokens, at least one.
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
