use std::fmt;

use oomph_core::SampleSpec;
use serde::{Deserialize, Serialize};

use crate::{ImageReader, Level, Source, Vocabulary};

/// A class or token whose name changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherClass {
    /// `class` or `token`.
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

/// The facts about a source that a trained model needs for predictions without the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// The shape of every sample.
    pub spec: SampleSpec,
    /// The names of the classes, in the order of their indices, if they have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_names: Option<Vec<String>>,
    /// The reader of image files, if samples are images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<ImageReader>,
    /// The kind of tokens, if samples are text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
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
        }
    }

    /// The first index at which the names of the classes or tokens of this record and `source` differ. `None` if all are
    /// the same, or if one of the two has no names.
    pub fn first_other_class(&self, source: &dyn Source) -> Option<OtherClass> {
        let (before, now) = (self.class_names.as_ref()?, source.class_names()?);
        let index = (0..before.len().max(now.len())).find(|index| before.get(*index) != now.get(*index))?;
        let what = if source.level().is_some() { "token" } else { "class" };
        Some(OtherClass { what, index, before: before.get(index).cloned(), now: now.get(index).cloned() })
    }

    /// The tokens of a text model; `None` for other models.
    pub fn vocabulary(&self) -> Option<Vocabulary> {
        Some(Vocabulary::new(self.level?, self.class_names.clone()?))
    }
}
