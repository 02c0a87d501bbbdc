use oomph_config::{Config, ConfigFile, Sources};
use oomph_core::{InputSpec, SampleSpec, Split};
use oomph_data::detect::Detected;
use oomph_survey::{StoredImages, Survey};
use oomph_trainer::Registry;

use crate::{ProposalError, text::data_keys};

/// What the data says about its training.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The shape of a sample.
    pub spec: SampleSpec,
    /// Samples to train on.
    pub train_samples: usize,
    /// Samples held out.
    pub test_samples: usize,
    /// How the held-out samples were chosen.
    pub held_out: Option<String>,
    /// The sizes of some stored images.
    pub images: Option<StoredImages>,
    /// The names of the classes with the most and the fewest training samples, with their numbers, if they are unbalanced.
    pub unbalanced: Option<String>,
}

/// Images whose sizes are looked at.
const LOOKED_AT: usize = 64;

impl Facts {
    /// Opens the detected data, and looks at some samples.
    ///
    /// # Errors
    /// Data that cannot be opened.
    pub fn of(detected: &Detected, registry: &Registry) -> Result<Self, ProposalError> {
        // Statistics are computed when the size is known, and any model will do.
        let is_folder = detected.source == "folder";
        let more = if is_folder { "normalize = \"none\"\non_corrupt = \"skip\"\n" } else { "" };
        let text = format!("[model]\nname = \"lstm\"\n\n[data]\n{}{more}", data_keys(detected));
        let config = Config::load(&Sources::new(ConfigFile::from_text("the proposed config", text)))?;
        let source = registry.read(&config)?.open_source(&config)?;
        let survey = Survey::of(&*source, Some(LOOKED_AT));
        let train = survey.part(Split::Train);
        Ok(Self {
            spec: source.spec().clone(),
            train_samples: source.len(Split::Train),
            test_samples: source.len(Split::Test),
            held_out: source.held_out_origin(),
            unbalanced: survey.unbalanced(&*source),
            images: train.images.clone(),
        })
    }

    /// The model that is usual for such data.
    pub fn usual_model(&self) -> &'static str {
        match self.spec.input {
            InputSpec::Image { .. } => "resnet18",
            InputSpec::Tokens { .. } => "lstm-lm",
            InputSpec::Sequence { .. } | InputSpec::Vector { .. } => "lstm",
        }
    }
}
