use std::fmt;

use oomph_core::{SampleSpec, Split, TargetSpec, grouped};
use oomph_tokens::{Level, TextEncoding, Tokenizer, Vocabulary};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{ImageReader, Source, transform::Statistics};

/// A class, token or column whose name changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherClass {
    /// `class`, `token`, or the kind of a column.
    pub what: &'static str,
    /// Its index, from 0.
    pub index: usize,
    /// Its earlier name, if it existed.
    pub before: Option<String>,
    /// Its present name, if it exists.
    pub now: Option<String>,
}

impl fmt::Display for OtherClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |name: &Option<String>| {
            name.as_ref().map_or_else(|| "not there".to_owned(), |name| format!("{name:?}"))
        };
        write!(f, "{} {} was {}, and is {} now", self.what, self.index, named(&self.before), named(&self.now))
    }
}

/// The columns of a table that samples are made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns {
    /// The columns of the inputs, in order.
    pub inputs: Vec<String>,
    /// The columns of the targets, in order.
    pub targets: Vec<String>,
}

/// How much data there was, and which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataDigest {
    /// Samples to train on.
    pub train_samples: usize,
    /// Samples held out.
    pub held_out_samples: usize,
    /// The digest of [`Source::digest`], if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The facts about a source that a trained model needs for predictions without the data, and that tell other data apart.
///
/// A record that is read contradicts neither itself nor what a model can be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
// Serde's functions for the fields get other names, so that reading can check the whole.
#[serde(remote = "Self")]
pub struct SourceRecord {
    /// The shape of every sample.
    pub spec: SampleSpec,
    /// The names of the classes, in the order of their indices, if they have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_names: Option<Vec<String>>,
    /// The reader of image files, if samples are images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<ImageReader>,
    /// The kind of tokens, if samples are text with a listed vocabulary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// The tokenizer, if samples are text by byte-pair encoding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<Tokenizer>,
    /// The statistics that normalised the inputs; empty ones if nothing did. Missing in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<Statistics>,
    /// The columns, if samples are rows of a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Columns>,
    /// Which data it was. Missing in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<DataDigest>,
}

impl Serialize for SourceRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for SourceRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = Self::deserialize(deserializer)?;
        record.check().map_err(D::Error::custom)?;
        Ok(record)
    }
}

impl SourceRecord {
    /// The key of this record, as JSON, in files of weights.
    pub const NOTE: &str = "oomph.source";

    /// The record of a source.
    pub fn of(source: &dyn Source) -> Self {
        Self {
            spec: source.spec().clone(),
            class_names: source.class_names().map(<[String]>::to_vec),
            images: source.image_reader(),
            level: source.level(),
            tokenizer: source.tokenizer().cloned(),
            statistics: source.statistics(),
            columns: source.columns(),
            digest: Some(DataDigest {
                train_samples: source.len(Split::Train),
                held_out_samples: source.len(Split::Test),
                sha256: source.digest(),
            }),
        }
    }

    /// Checks the values against each other. The error names the first that is impossible.
    fn check(&self) -> Result<(), String> {
        let expect = |is_met: bool, field: &str, expected: &str| {
            if is_met {
                Ok(())
            } else {
                Err(format!("`{field}` has an impossible value: expected {expected}"))
            }
        };
        let of_reader = self.images.as_ref().map(ImageReader::statistics);
        for (field, statistics) in
            [("statistics", self.statistics.as_ref()), ("images.statistics", of_reader)]
        {
            let is_usable = statistics.is_none_or(|statistics| statistics.is_of(statistics.mean.len()));
            expect(is_usable, field, "a mean and a standard deviation above 0 for each channel")?;
        }
        if let Some(reader) = &self.images {
            // Rows of an image may be the steps of a sequence.
            let is_of_spec = reader.shape().elements() == self.spec.input.elements();
            expect(
                is_of_spec,
                "images.shape",
                &format!("as many values as the {} of `spec`", self.spec.input),
            )?;
        }
        let outputs = self.spec.target.outputs();
        let named = self.class_names.as_ref().map_or(0, Vec::len);
        expect(named <= outputs, "class_names", &format!("at most {outputs}, one for each output"))?;
        if let Some(tokenizer) = &self.tokenizer {
            let expected = format!("as many tokens as outputs (= {outputs})");
            expect(tokenizer.size() == outputs, "tokenizer", &expected)?;
            expect(self.level.is_none(), "level", "none beside `tokenizer`")?;
        }
        let is_possible = self.spec.input.shape().iter().all(|size| *size > 0) && outputs > 0;
        expect(is_possible, "spec", "at least 1 for each size")
    }

    /// The statistics that normalised the inputs, if they are known.
    pub fn trained_statistics(&self) -> Option<&Statistics> {
        // Older records of images have them in the reader alone.
        self.statistics.as_ref().or_else(|| self.images.as_ref().map(ImageReader::statistics))
    }

    /// The first index at which the columns of this record and `source` differ. `None` if all are the same, or if one of the
    /// two has no columns.
    pub fn first_other_column(&self, source: &dyn Source) -> Option<OtherClass> {
        let (before, now) = (self.columns.as_ref()?, source.columns()?);
        let kinds =
            [("input column", &before.inputs, &now.inputs), ("target column", &before.targets, &now.targets)];
        kinds.into_iter().find_map(|(what, before, now)| {
            first_other(before, now).map(|other| OtherClass { what, ..other })
        })
    }

    /// A sentence if `source` normalises by other statistics than these.
    pub fn other_statistics(&self, source: &dyn Source) -> Option<String> {
        let (before, now) = (self.trained_statistics()?, source.statistics()?);
        let index = (0..before.mean.len().max(now.mean.len()).max(1))
            .find(|&index| before.of(index) != now.of(index))?;
        let name = self.columns.as_ref().and_then(|columns| columns.name(index));
        let name = name.map_or_else(|| format!("channel {index}"), |name| format!("column `{name}`"));
        Some(format!(
            "{name} was normalised by {} in the training, and is normalised by {} now",
            before.shown(index),
            now.shown(index)
        ))
    }

    /// A sentence if `now` is the record of other data.
    pub fn other_data(&self, now: &Self) -> Option<String> {
        let (before, now) = (self.digest.as_ref()?, now.digest.as_ref()?);
        let samples = |digest: &DataDigest| [digest.train_samples, digest.held_out_samples];
        if samples(before) != samples(now) {
            let [train, held_out] = samples(before).map(|count| grouped(count as u64));
            let [train_now, held_out_now] = samples(now).map(|count| grouped(count as u64));
            return Some(format!(
                "the data changed since the checkpoint: it had {train} samples to train on and {held_out} held out, and \
                 has {train_now} and {held_out_now} now"
            ));
        }
        let is_other = before.sha256.is_some() && now.sha256.is_some() && before.sha256 != now.sha256;
        is_other.then(|| {
            "the data changed since the checkpoint: it has as many samples with other contents".to_owned()
        })
    }

    /// The first index at which the names of the classes or tokens of this record and `source` differ. `None` if all are
    /// the same, or if one of the two has no names.
    pub fn first_other_class(&self, source: &dyn Source) -> Option<OtherClass> {
        let (before, now) = (self.class_names.as_ref()?, source.class_names()?);
        let what = match source.spec().target {
            TargetSpec::Labels { .. } => "label",
            _ if source.level().is_some() => "token",
            _ => "class",
        };
        first_other(before, now).map(|class| OtherClass { what, ..class })
    }

    /// Whether samples are text.
    pub fn is_text(&self) -> bool {
        self.level.is_some() || self.tokenizer.is_some()
    }

    /// A sentence if `source` makes other tokens of a text: by another tokenizer, or by a tokenizer where the training had a
    /// vocabulary, or the other way round.
    pub fn other_tokenizer(&self, source: &dyn Source) -> Option<String> {
        let now = source.tokenizer();
        let is_other = self.is_text() && source.is_text() && self.tokenizer.as_ref() != now;
        let named = |tokenizer: Option<&Tokenizer>| {
            tokenizer.map_or_else(
                || "no tokenizer".to_owned(),
                |it| {
                    format!(
                        "a tokenizer of {} tokens, SHA-256 {}",
                        grouped(it.size() as u64),
                        it.hex_digest()
                    )
                },
            )
        };
        is_other.then(|| format!("it had {}, and has {} now", named(self.tokenizer.as_ref()), named(now)))
    }

    /// How the text of a text model becomes tokens; `None` for other models.
    pub fn text_encoding(&self) -> Option<TextEncoding> {
        match &self.tokenizer {
            Some(tokenizer) => Some(TextEncoding::BytePairs(tokenizer.clone())),
            None => Some(TextEncoding::Listed(Vocabulary::new(self.level?, self.class_names.clone()?))),
        }
    }
}

/// The first index at which two lists of names differ.
fn first_other(before: &[String], now: &[String]) -> Option<OtherClass> {
    let index = (0..before.len().max(now.len())).find(|index| before.get(*index) != now.get(*index))?;
    Some(OtherClass {
        what: "class",
        index,
        before: before.get(index).cloned(),
        now: now.get(index).cloned(),
    })
}

impl Columns {
    /// The names of all columns: the inputs, then those that are targets only.
    fn name(&self, index: usize) -> Option<&str> {
        let more = self.targets.iter().filter(|name| !self.inputs.contains(name));
        self.inputs.iter().chain(more).nth(index).map(String::as_str)
    }
}
