//! What a source holds: counts, classes, stored sizes, unreadable samples, and duplicates between the two parts.
//!
//! - [`Survey`]: both parts, with warnings; [`PartSurvey`]: one of them.
//! - [`StoredImages`]: the sizes of images; [`Duplicates`]: held-out samples that are trained on too.
//!
//! ```
//! # use std::sync::Arc;
//! # use oomph_config::Section;
//! use oomph_core::Split;
//! use oomph_data::{OpenContext, digits};
//! use oomph_survey::Survey;
//!
//! # let section = Section::from_toml("data", "")?;
//! let source = digits(&section)?.open(&OpenContext::new("unused", 0))?;
//! let survey = Survey::of(&*source, None);
//! assert_eq!(survey.part(Split::Train).samples, 1438);
//! assert_eq!(survey.part(Split::Test).classes.len(), 10);
//! assert_eq!(survey.duplicates.count, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It reads samples through their source alone, and changes nothing.

mod duplicates;
mod part;
mod warnings;

use oomph_core::Split;
use oomph_data::Source;
use serde::Serialize;

pub use self::{
    duplicates::{Duplicate, Duplicates},
    part::{PartSurvey, StoredImages},
};

/// What a source holds.
#[derive(Clone)]
pub struct Survey {
    train: PartSurvey,
    test: PartSurvey,
    /// Held-out samples whose content is in the training set too.
    pub duplicates: Duplicates,
}

impl Survey {
    /// Reads the samples of both parts on all cores; at most `most` of each part, evenly spread. Classes are counted over all
    /// samples.
    pub fn of(source: &dyn Source, most: Option<usize>) -> Self {
        let (train, in_train) = part::survey(source, Split::Train, most);
        let (test, in_test) = part::survey(source, Split::Test, most);
        let duplicates = Duplicates::between(source, in_train, &in_test);
        Self { train, test, duplicates }
    }

    /// What one part holds.
    pub fn part(&self, split: Split) -> &PartSurvey {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }

    /// Which classes or labels have the most and the fewest training samples, if some have several times as many as others.
    pub fn unbalanced(&self, source: &dyn Source) -> Option<String> {
        warnings::unbalanced(self, source)
    }

    /// Properties of the data that a training suffers from, each as a sentence.
    pub fn warnings(&self, source: &dyn Source) -> Vec<String> {
        warnings::warnings(self, source)
    }
}

impl Serialize for Survey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            train: &'a PartSurvey,
            test: &'a PartSurvey,
            duplicates: &'a Duplicates,
        }
        let Self { train, test, duplicates } = self;
        Shown { train, test, duplicates }.serialize(serializer)
    }
}
