//! The description of a source, for programs.

use oomph_config::Config;
use oomph_core::{InputSpec, Split, TargetSpec};
use oomph_data::{Columns, Source, survey::Survey, transform::Statistics};
use serde::Serialize;

use super::preview::WrittenPreview;

/// What a source holds, as JSON.
#[derive(Serialize)]
pub(super) struct Described<'a> {
    /// The name of the source: `data.source`.
    pub(super) source: String,
    pub(super) input: &'a InputSpec,
    pub(super) target: &'a TargetSpec,
    /// How the held-out part was chosen.
    pub(super) held_out: Option<String>,
    /// Empty unless targets are classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) classes: Vec<DescribedClass<'a>>,
    /// Empty unless targets are labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) labels: Vec<DescribedLabel<'a>>,
    /// Mean and standard deviation of each channel or column that normalise the inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) statistics: Option<Statistics>,
    /// The columns of a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) columns: Option<Columns>,
    /// The kind of a text's tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) level: Option<&'static str>,
    #[serde(flatten)]
    survey: &'a Survey,
    pub(super) warnings: Vec<String>,
    /// The picture that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) preview: Option<WrittenPreview>,
}

/// A class with its samples.
#[derive(Serialize)]
pub(super) struct DescribedClass<'a> {
    /// Its name; `None` if the source names none.
    pub(super) class: Option<&'a str>,
    pub(super) index: usize,
    pub(super) train: usize,
    pub(super) test: usize,
}

/// A label with the samples that have it.
#[derive(Serialize)]
pub(super) struct DescribedLabel<'a> {
    /// Its name; `None` if the source names none.
    pub(super) label: Option<&'a str>,
    pub(super) index: usize,
    pub(super) train: usize,
    pub(super) test: usize,
}

impl<'a> Described<'a> {
    pub(super) fn new(
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
            level: source.level().map(oomph_data::Level::key),
            survey,
            warnings: survey.warnings(source),
            preview,
        }
    }
}
