use oomph_core::SampleSpec;
use serde::{Deserialize, Serialize};

use crate::{ImageReader, Level, Source, Vocabulary};

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
    /// Of a source.
    pub fn of(source: &dyn Source) -> Self {
        Self {
            spec: source.spec().clone(),
            class_names: source.class_names().map(<[String]>::to_vec),
            images: source.image_reader(),
            level: source.level(),
        }
    }

    /// The tokens that a model of text knows; `None` of other models.
    pub fn vocabulary(&self) -> Option<Vocabulary> {
        Some(Vocabulary::new(self.level?, self.class_names.clone()?))
    }
}
