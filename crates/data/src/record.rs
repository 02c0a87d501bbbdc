use oomph_core::SampleSpec;
use serde::{Deserialize, Serialize};

use crate::{ImageReader, Source};

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
}

impl SourceRecord {
    /// Of a source.
    pub fn of(source: &dyn Source) -> Self {
        Self {
            spec: source.spec().clone(),
            class_names: source.class_names().map(<[String]>::to_vec),
            images: source.image_reader(),
        }
    }
}
