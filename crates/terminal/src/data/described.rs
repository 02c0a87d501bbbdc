//! The description of a source, for programs.

use oomph_config::Config;
use oomph_core::{InputSpec, Split, TargetSpec};
use oomph_data::{Columns, Source, transform::Statistics};
use oomph_survey::Survey;
use serde::Serialize;

use super::preview::WrittenPreview;

/// What a source holds, as JSON, with the preview that a command wrote.
#[derive(Serialize)]
pub struct Described<'a> {
    /// The name of the source: `data.source`.
    pub source: String,
    /// The shape of an input.
    pub input: &'a InputSpec,
    /// The target of a sample.
    pub target: &'a TargetSpec,
    /// How the held-out part was chosen.
    pub held_out: Option<String>,
    /// Empty unless targets are classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<DescribedClass<'a>>,
    /// Empty unless targets are labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<DescribedLabel<'a>>,
    /// Mean and standard deviation of each channel or column that normalise the inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statistics: Option<Statistics>,
    /// The columns of a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Columns>,
    /// The kind of a text's tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<&'static str>,
    #[serde(flatten)]
    survey: &'a Survey,
    /// What is wrong with it, in sentences.
    pub warnings: Vec<String>,
    /// The picture that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<WrittenPreview>,
}

/// A class with its samples.
#[derive(Serialize)]
pub struct DescribedClass<'a> {
    /// Its name; `None` if the source names none.
    pub class: Option<&'a str>,
    /// Its number.
    pub index: usize,
    /// Samples of the training set.
    pub train: usize,
    /// Samples of the held-out set.
    pub test: usize,
}

/// A label with the samples that have it.
#[derive(Serialize)]
pub struct DescribedLabel<'a> {
    /// Its name; `None` if the source names none.
    pub label: Option<&'a str>,
    /// Its number.
    pub index: usize,
    /// Samples of the training set.
    pub train: usize,
    /// Samples of the held-out set.
    pub test: usize,
}

impl<'a> Described<'a> {
    /// From a source and the survey of it.
    pub fn new(
        config: &Config,
        source: &'a dyn Source,
        survey: &'a Survey,
        preview: Option<WrittenPreview>,
    ) -> Self {
        let name = |index: usize| source.class_names().and_then(|names| names.get(index)).map(String::as_str);
        let parts = [Split::Train, Split::Test].map(|split| survey.part(split));
        let [train, test] = parts.map(|part| &part.classes);
        let classes = train.iter().zip(test).enumerate().map(|(index, (&train, &test))| DescribedClass {
            class: name(index),
            index,
            train,
            test,
        });
        let [train, test] = parts.map(|part| part.labels.iter().flat_map(|labels| &labels.samples));
        let labels = train.zip(test).enumerate().map(|(index, (&train, &test))| DescribedLabel {
            label: name(index),
            index,
            train,
            test,
        });
        let spec = source.spec();
        Self {
            // The name was read when the source was opened, so it is valid.
            source: config.data.string("source", "").unwrap_or_default(),
            input: &spec.input,
            target: &spec.target,
            held_out: source.held_out_origin(),
            classes: classes.collect(),
            labels: labels.collect(),
            statistics: source.statistics().filter(|statistics| !statistics.mean.is_empty()),
            columns: source.columns(),
            level: match source.tokenizer() {
                Some(_) => Some("bpe"),
                None => source.level().map(oomph_data::Level::key),
            },
            survey,
            warnings: survey.warnings(source),
            preview,
        }
    }
}
