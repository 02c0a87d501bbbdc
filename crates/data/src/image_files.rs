use std::path::PathBuf;

use oomph_core::{Key, SampleSpec, Split, TargetSpec};

use crate::{ImageReader, Sample, SampleError, Source, SourceRecord, Target, Values};

/// Image files for predictions: a source that has only a held-out part.
///
/// The true targets are unknown; every target is a placeholder: the first class, no label or zeros.
#[derive(Clone, Debug)]
pub struct ImageFiles {
    spec: SampleSpec,
    class_names: Option<Vec<String>>,
    reader: ImageReader,
    files: Vec<PathBuf>,
}

impl ImageFiles {
    /// Files that are read like the images of the recorded source; `None` if its samples are not images, or its targets
    /// are tokens.
    pub fn new(record: &SourceRecord, files: Vec<PathBuf>) -> Option<Self> {
        if matches!(record.spec.target, TargetSpec::Tokens { .. }) {
            return None;
        }
        let reader = record.images.clone()?;
        let SourceRecord { spec, class_names, .. } = record.clone();
        Some(Self { spec, class_names, reader, files })
    }

    /// The files, in order.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }
}

impl Source for ImageFiles {
    fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }

    fn image_reader(&self) -> Option<ImageReader> {
        Some(self.reader.clone())
    }

    fn len(&self, split: Split) -> usize {
        match split {
            Split::Train => 0,
            Split::Test => self.files.len(),
        }
    }

    fn sample(&self, _: Split, index: usize, _: Option<Key>) -> Result<Sample, SampleError> {
        let input = Values::Floats(self.reader.read(&self.files[index])?);
        let target = match self.spec.target {
            TargetSpec::Class { .. } => Target::Class(0),
            TargetSpec::Labels { .. } => Target::Labels(Vec::new()),
            TargetSpec::Values { features } => Target::Values(vec![0.0; features]),
            TargetSpec::Tokens { steps, .. } => Target::Tokens(vec![0; steps]),
        };
        Ok(Sample { input, target })
    }

    fn sample_name(&self, _: Split, index: usize) -> String {
        format!("`{}`", self.files[index].display())
    }
}
