use std::fmt;

use oomph_core::SampleSpec;
use serde::{Deserialize, Serialize};

use crate::{ImageReader, Level, Source, Vocabulary};

/// A class, or a token, that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherClass {
    /// `class` or `token`.
    pub what: &'static str,
    /// Its place among all, from 0.
    pub index: usize,
    /// What it was called, if it was there.
    pub before: Option<String>,
    /// What it is called, if it is there.
    pub now: Option<String>,
}

impl fmt::Display for OtherClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |name: &Option<String>| match name {
            Some(name) => format!("{name:?}"),
            None => "not there".to_owned(),
        };
        write!(f, "{} {} was {}, and is {} now", self.what, self.index, named(&self.before), named(&self.now))
    }
}

/// What of a source a trained model needs to be asked: the data need not be there then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// What every sample looks like.
    pub spec: SampleSpec,
    /// The names of the classes, in the order of their indices, where they have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_names: Option<Vec<String>>,
    /// How the file of an image becomes an input, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<ImageReader>,
    /// What the tokens of a text are, where samples are made of those that are the classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
}

impl SourceRecord {
    /// Under which key files of weights have it, as JSON.
    pub const NOTE: &str = "oomph.source";

    /// Of a source.
    pub fn of(source: &dyn Source) -> Self {
        Self {
            spec: source.spec().clone(),
            class_names: source.class_names().map(<[String]>::to_vec),
            images: source.image_reader(),
            level: source.level(),
        }
    }

    /// The first class that `source` does not have at the same place, with what it is in both: a class is its place among
    /// all, and so is a token. `None` where they are the same, or one of both has no names.
    pub fn first_other_class(&self, source: &dyn Source) -> Option<OtherClass> {
        let (before, now) = (self.class_names.as_ref()?, source.class_names()?);
        let index = (0..before.len().max(now.len())).find(|index| before.get(*index) != now.get(*index))?;
        let what = match source.level() {
            Some(_) => "token",
            None => "class",
        };
        Some(OtherClass { what, index, before: before.get(index).cloned(), now: now.get(index).cloned() })
    }

    /// The tokens that a model of text knows; `None` of other models.
    pub fn vocabulary(&self) -> Option<Vocabulary> {
        Some(Vocabulary::new(self.level?, self.class_names.clone()?))
    }
}
