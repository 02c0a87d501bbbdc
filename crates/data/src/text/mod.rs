pub(crate) mod corpus;
pub(crate) mod documents;
mod encoded;
mod packed;
mod parquet;
mod prompt;
mod settings;
mod tokenizer_file;
mod train;
pub(crate) mod vocabulary_file;
mod windows;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use oomph_core::{Bytes, InputSpec, Key, SampleSpec, Split, TargetSpec, grouped};
use oomph_tokens::{Level, Vocabulary};

pub use self::{prompt::Prompt, settings::text, train::train_tokenizer};
use self::{
    settings::{TextSettings, TokenKind},
    windows::{Windows, wrapped},
};
use crate::{
    DataError, OpenContext, OpenSource, Sample, SampleError, Source, Target, Values,
    declared::{Declared, MANY},
    digest::{Digest, little_endian},
    download::download,
    source::Parts,
    stored::StoredSample,
};

/// The default of `data.text_key`.
pub(crate) const TEXT_KEY: &str = "text";

impl OpenSource for TextSettings {
    fn open(&self, context: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        let path = self.path.get()?;
        if let Some(remote) = self.remote.as_ref().filter(|_| !path.exists()) {
            download(remote, path, &|event| context.tell(event))?;
        }
        let files = corpus::files(path)?;
        match self.kind {
            TokenKind::Listed(level) => Ok(Arc::new(self.listed(level, path, &files)?)),
            TokenKind::BytePairs => Ok(Arc::new(self.encoded(path, &files, context)?)),
        }
    }

    fn declared(&self) -> Option<Arc<dyn Source>> {
        /// Characters of Tiny Shakespeare, and the different ones among them with `<unk>`.
        const SHAKESPEARE: (usize, usize) = (1_115_394, 66);
        let is_shakespeare = self.is_known && self.kind == TokenKind::Listed(Level::Char);
        let told = self.told_vocabulary;
        let vocabulary = match self.kind {
            TokenKind::Listed(_) => told.or(is_shakespeare.then_some(SHAKESPEARE.1))?,
            TokenKind::BytePairs => told.or_else(|| self.tokenizer(None).ok().map(|known| known.size()))?,
        };
        let held_out = (SHAKESPEARE.0 as f64 * self.held_out).round() as usize;
        let known = [SHAKESPEARE.0 - held_out, held_out].map(|tokens| tokens.saturating_sub(1) / self.steps);
        Some(Arc::new(Declared {
            spec: self.spec(vocabulary),
            samples: if is_shakespeare { known } else { MANY },
            is_continuous: self.carry,
        }))
    }
}

impl TextSettings {
    /// The shape of samples of a vocabulary of so many tokens.
    fn spec(&self, vocabulary: usize) -> SampleSpec {
        let steps = self.steps;
        SampleSpec {
            input: InputSpec::Tokens { steps, vocabulary },
            target: TargetSpec::Tokens { steps, vocabulary },
        }
    }

    /// Of `count` tokens, those to train on.
    fn in_train(&self, count: usize, path: &Path, files: &[PathBuf]) -> Result<usize, DataError> {
        let held_out = ((count as f64 * self.held_out).round() as usize).min(count);
        let in_train = count - held_out;
        // The target of each token is the next one, so a sample needs one token more than its steps.
        let too_short = |tokens: usize| tokens <= self.steps;
        if too_short(in_train) || self.held_out > 0.0 && too_short(held_out) {
            return Err(DataError::TooShort {
                path: path.to_owned(),
                files: files.len(),
                tokens: [in_train, held_out],
                steps: self.steps,
            });
        }
        Ok(in_train)
    }

    /// The text in characters or words.
    fn listed(&self, level: Level, path: &Path, files: &[PathBuf]) -> Result<TextSource, DataError> {
        let text = corpus::read(files, &self.reading)?;
        // Only counted here: a list of the tokens would take many times the memory of the text.
        let in_train = self.in_train(level.tokens(&text).count(), path, files)?;
        let vocabulary = self.vocabulary(level, &text, in_train)?;
        let mut train = vocabulary.encode(&text);
        let test = train.split_off(in_train);
        train.shrink_to_fit();
        // Words lose the white space between them, so their bytes are not those of the text.
        let held_out_bytes = (level == Level::Char)
            .then(|| text.char_indices().nth(in_train).map(|(at, _)| text.len() - at))
            .flatten();
        Ok(TextSource {
            spec: self.spec(vocabulary.tokens().len()),
            bytes_per_token: held_out_bytes.map(|bytes| bytes as f64 / test.len() as f64),
            vocabulary,
            parts: Parts { train, test },
            steps: self.steps,
            carry: self.carry,
            windows: self.windows,
        })
    }

    /// The vocabulary of the given file, or else of the training part of the text.
    fn vocabulary(&self, level: Level, text: &str, in_train: usize) -> Result<Vocabulary, DataError> {
        let Some(path) = &self.vocabulary_file else {
            let train = level.tokens(text).take(in_train);
            return Ok(Vocabulary::of(level, train, self.min_count, self.vocabulary));
        };
        let vocabulary = vocabulary_file::read(path, level)?;
        if vocabulary.knows(Vocabulary::UNKNOWN) {
            return Ok(vocabulary);
        }
        match vocabulary.unknown_in(text).first() {
            Some(token) => Err(DataError::UnknownToken { path: path.clone(), token: (*token).to_owned() }),
            None => Ok(vocabulary),
        }
    }
}

/// The tokens of a text in two parts, cut into samples of equal length.
struct TextSource {
    spec: SampleSpec,
    vocabulary: Vocabulary,
    parts: Parts<Vec<i32>>,
    steps: usize,
    carry: bool,
    windows: Windows,
    /// UTF-8 bytes of the held-out text for each of its tokens.
    bytes_per_token: Option<f64>,
}

impl TextSource {
    /// The sample that begins `offset` tokens behind its place.
    fn window(&self, split: Split, index: usize, offset: usize) -> Sample {
        let part = self.parts.of(split);
        let (from, count) = (offset + index * self.steps, self.steps + 1);
        let ranges = wrapped(from as u64, count as u64, part.len() as u64);
        let mut input = Vec::with_capacity(count);
        ranges.into_iter().for_each(|range| {
            input.extend_from_slice(&part[range.start as usize..range.end as usize]);
        });
        let target = input[1..].to_vec();
        input.truncate(self.steps);
        Sample { input: Values::Tokens(input), target: Target::Tokens(target) }
    }
}

impl Source for TextSource {
    fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    fn class_names(&self) -> Option<&[String]> {
        Some(self.vocabulary.tokens())
    }

    fn len(&self, split: Split) -> usize {
        self.parts.of(split).len().saturating_sub(1) / self.steps
    }

    fn level(&self) -> Option<Level> {
        Some(self.vocabulary.level())
    }

    fn held_out_bytes_per_token(&self) -> Option<f64> {
        self.bytes_per_token
    }

    fn is_continuous(&self) -> bool {
        self.carry
    }

    fn digest(&self) -> Option<String> {
        let mut digest = Digest::new();
        for tokens in [&self.parts.train, &self.parts.test] {
            tokens
                .chunks(1 << 14)
                .for_each(|piece| digest.add(&little_endian(piece.iter().map(|it| it.to_le_bytes()))));
        }
        Some(digest.finish())
    }

    fn inspect(&self, split: Split, index: usize) -> Result<StoredSample, SampleError> {
        let from = index * self.steps;
        let tokens = self.parts.of(split)[from..from + self.steps].to_vec();
        Ok(StoredSample { tokens, ..StoredSample::default() })
    }

    fn held_out_origin(&self) -> Option<String> {
        let [train, test] = [&self.parts.train, &self.parts.test].map(|part| part.len() as u64);
        Some(held_out_origin(test, train + test))
    }

    fn sample(&self, split: Split, index: usize, _: Option<Key>) -> Result<Sample, SampleError> {
        Ok(self.window(split, index, 0))
    }

    fn sample_in_epoch(&self, split: Split, index: usize, epoch: Key, _: Key) -> Result<Sample, SampleError> {
        Ok(self.window(split, index, self.windows.offset(self.steps, epoch)))
    }

    fn host_bytes(&self) -> Bytes {
        let Parts { train, test } = &self.parts;
        Bytes::new((size_of_val(train.as_slice()) + size_of_val(test.as_slice())) as u64)
    }
}

/// How the held-out part was chosen.
fn held_out_origin(held_out: u64, all: u64) -> String {
    format!("the last {} of {} tokens (`data.held_out`)", grouped(held_out), grouped(all))
}

#[cfg(test)]
mod tests {
    use oomph_config::Section;

    use super::*;
    use crate::server::{Answer, Server};

    fn settings(path: &std::path::Path, more: &str) -> TextSettings {
        let text = format!("path = '{}'\n{more}", path.display());
        TextSettings::read(&Section::from_toml("data", &text).expect("valid TOML")).expect("valid settings")
    }

    fn open(settings: &TextSettings) -> Result<Arc<dyn Source>, DataError> {
        settings.open(&OpenContext::new("unused", 0))
    }

    #[test]
    fn samples_follow_one_another_and_their_targets_are_one_token_on() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("text.txt");
        std::fs::write(&path, "abcdefghij".repeat(10)).expect("written");
        let source = open(&settings(&path, "steps = 7\nheld_out = 0.25")).expect("a text");
        assert_eq!([Split::Train, Split::Test].map(|split| source.len(split)), [10, 3]);
        assert!(source.is_continuous());
        assert_eq!(source.held_out_bytes_per_token(), Some(1.0));
        let tokens = source.class_names().expect("a vocabulary");
        let text = |indices: &[i32]| {
            indices.iter().map(|index| tokens[*index as usize].as_str()).collect::<String>()
        };
        for (split, index, input, target) in [
            (Split::Train, 0, "abcdefg", "bcdefgh"),
            (Split::Train, 1, "hijabcd", "ijabcde"),
            (Split::Test, 0, "fghijab", "ghijabc"),
        ] {
            match source.sample(split, index, None).expect("it is there") {
                Sample { input: Values::Tokens(found), target: Target::Tokens(next) } => {
                    assert_eq!([text(&found), text(&next)], [input, target]);
                }
                other => panic!("{other:?}"),
            }
        }
        let whole = open(&settings(&path, "steps = 7\nheld_out = 0.0")).expect("nothing is held out");
        assert_eq!([Split::Train, Split::Test].map(|split| whole.len(split)), [14, 0]);
        assert!(matches!(open(&settings(&path, "steps = 80")), Err(DataError::TooShort { .. })));
    }

    #[test]
    fn each_epoch_cuts_the_training_text_at_other_places() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("text.txt");
        let text: String = ('a'..='z').chain('A'..='N').collect();
        std::fs::write(&path, &text).expect("written");
        let inputs = |more: &str, epoch: Option<u64>| {
            let source =
                open(&settings(&path, &format!("steps = 6\nheld_out = 0.2\n{more}"))).expect("a text");
            let tokens = source.class_names().expect("a vocabulary").to_vec();
            assert_eq!(source.len(Split::Train), 5);
            let text = |index| {
                let sample = match epoch {
                    Some(epoch) => {
                        let key = Key::new(7).with(epoch);
                        source.sample_in_epoch(Split::Train, index, key, key.with(index as u64))
                    }
                    None => source.sample(Split::Train, index, None),
                };
                let Values::Tokens(input) = sample.expect("it is there").input else { panic!("tokens") };
                input.into_iter().map(|token| tokens[token as usize].as_str()).collect::<String>()
            };
            (0..5).map(text).collect::<Vec<_>>()
        };
        let fixed = ["abcdef", "ghijkl", "mnopqr", "stuvwx", "yzABCD"];
        let epochs: Vec<_> = (0..20).map(|epoch| inputs("carry = false", Some(epoch))).collect();
        assert!(epochs.iter().any(|epoch| *epoch == ["fghijk", "lmnopq", "rstuvw", "xyzABC", "DEFabc"]));
        assert!(epochs.contains(&fixed.map(str::to_owned).to_vec()));
        assert_eq!(epochs[3], inputs("carry = false", Some(3)));
        // Evaluation, windows that are fixed, and samples that carry a state.
        assert_eq!(inputs("carry = false", None), fixed);
        for settings in ["carry = false\nwindows = 'fixed'", "carry = true"] {
            (0..20).for_each(|epoch| assert_eq!(inputs(settings, Some(epoch)), fixed));
        }
    }

    #[test]
    fn a_missing_text_is_fetched() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let text = "to be or not to be ".repeat(30);
        let server = Server::start(text.clone().into_bytes(), &[Answer::Whole]);
        let path = place.path().join("text.txt");
        let settings =
            TextSettings { remote: Some(server.remote(text.as_bytes())), ..settings(&path, "steps = 8") };
        assert_eq!(open(&settings).expect("fetched").spec(), open(&settings).expect("there").spec());
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), text);
        assert_eq!(server.requests(), [0]);
    }
}
