//! A text in the tokens of a tokenizer, on disk.

use std::path::{Path, PathBuf};

use oomph_core::{Key, SampleSpec, Split};
use oomph_tokens::{TextDigests, TokenFile, Tokenizer};

use super::{
    held_out_origin, packed,
    settings::TextSettings,
    windows::{Windows, wrapped},
};
use crate::{
    DataError, OpenContext, Sample, SampleError, Source, Target, Values, digest::Digest, stored::StoredSample,
};

impl TextSettings {
    /// The text in the tokens of the tokenizer.
    pub(super) fn encoded(
        &self,
        path: &Path,
        files: &[PathBuf],
        context: &OpenContext,
    ) -> Result<EncodedText, DataError> {
        let tokenizer = self.tokenizer(context.recorded_tokenizer())?;
        let size = tokenizer.size();
        if let Some(declared) = self.told_vocabulary.filter(|told| *told != size) {
            return Err(DataError::OtherVocabulary { found: size, declared });
        }
        let tokens = packed::tokens(&tokenizer, path, files, &self.reading, context)?;
        // What does not fit into the address space does not fit on a disk.
        let count = usize::try_from(tokens.tokens()).unwrap_or(usize::MAX);
        let in_train = self.in_train(count, path, files)? as u64;
        let held_out = in_train..tokens.tokens();
        let bytes = tokens.text_bytes(held_out.clone(), &tokenizer);
        let bytes = bytes.map_err(|source| DataError::Io { path: tokens.path().to_owned(), source })?;
        let bytes_per_token =
            (!held_out.is_empty()).then(|| bytes as f64 / (held_out.end - held_out.start) as f64);
        Ok(EncodedText {
            spec: self.spec(size),
            tokenizer,
            tokens,
            in_train,
            steps: self.steps,
            carry: self.carry,
            windows: self.windows,
            bytes_per_token,
        })
    }
}

/// Tokens in two parts, cut into samples of equal length, that are read as they are asked for.
pub(super) struct EncodedText {
    spec: SampleSpec,
    tokenizer: Tokenizer,
    tokens: TokenFile,
    in_train: u64,
    steps: usize,
    carry: bool,
    windows: Windows,
    bytes_per_token: Option<f64>,
}

impl EncodedText {
    /// The `count` tokens of a sample that begins `offset` tokens behind its place.
    fn read(&self, split: Split, index: usize, offset: usize, count: u64) -> Result<Vec<i32>, SampleError> {
        let part = match split {
            Split::Train => 0..self.in_train,
            Split::Test => self.in_train..self.tokens.tokens(),
        };
        let from = offset as u64 + index as u64 * self.steps as u64;
        let mut tokens = Vec::new();
        for range in wrapped(from, count, part.end - part.start) {
            let read = self.tokens.read(part.start + range.start..part.start + range.end);
            tokens.extend(read.map_err(|error| {
                let file = self.tokens.path().display();
                SampleError::new(self.sample_name(split, index), format!("`{file}` cannot be read: {error}"))
            })?);
        }
        // A forged token may be above all others; the loader refuses it, also below 0.
        Ok(tokens.into_iter().map(u32::cast_signed).collect())
    }

    fn window(&self, split: Split, index: usize, offset: usize) -> Result<Sample, SampleError> {
        let mut input = self.read(split, index, offset, self.steps as u64 + 1)?;
        let target = input[1..].to_vec();
        input.truncate(self.steps);
        Ok(Sample { input: Values::Tokens(input), target: Target::Tokens(target) })
    }
}

impl Source for EncodedText {
    fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    fn tokenizer(&self) -> Option<&Tokenizer> {
        Some(&self.tokenizer)
    }

    fn held_out_bytes_per_token(&self) -> Option<f64> {
        self.bytes_per_token
    }

    fn len(&self, split: Split) -> usize {
        let tokens = match split {
            Split::Train => self.in_train,
            Split::Test => self.tokens.tokens() - self.in_train,
        };
        usize::try_from(tokens.saturating_sub(1)).unwrap_or(usize::MAX) / self.steps
    }

    fn is_continuous(&self) -> bool {
        self.carry
    }

    fn digest(&self) -> Option<String> {
        let TextDigests { text, tokenizer } = self.tokens.digests();
        let mut digest = Digest::new();
        digest.add(&text);
        digest.add(&tokenizer);
        digest.add(&self.in_train.to_le_bytes());
        Some(digest.finish())
    }

    fn inspect(&self, split: Split, index: usize) -> Result<StoredSample, SampleError> {
        Ok(StoredSample { tokens: self.read(split, index, 0, self.steps as u64)?, ..StoredSample::default() })
    }

    fn held_out_origin(&self) -> Option<String> {
        let all = self.tokens.tokens();
        Some(held_out_origin(all - self.in_train, all))
    }

    fn sample(&self, split: Split, index: usize, _: Option<Key>) -> Result<Sample, SampleError> {
        self.window(split, index, 0)
    }

    fn sample_in_epoch(&self, split: Split, index: usize, epoch: Key, _: Key) -> Result<Sample, SampleError> {
        self.window(split, index, self.windows.offset(self.steps, epoch))
    }
}
