use oomph_core::{Split, TargetSpec};
use serde::Serialize;

use crate::Source;

/// The labels of samples that may each have any number of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LabelCounts {
    /// The samples with each label, by index.
    pub samples: Vec<usize>,
    /// The samples without a label.
    pub without: usize,
    /// The most labels of a sample.
    pub most: usize,
}

/// The samples of each class of a part; empty unless targets are classes. Samples without a readable class are left out.
pub fn class_counts(source: &dyn Source, split: Split) -> Vec<usize> {
    let TargetSpec::Class { count } = source.spec().target else {
        return Vec::new();
    };
    let mut counts = vec![0; count];
    for index in 0..source.len(split) {
        if let Ok(Some(class)) = source.class(split, index)
            && let Some(count) = counts.get_mut(class)
        {
            *count += 1;
        }
    }
    counts
}

/// The labels of the samples of a part; `None` unless targets are labels. Samples without readable labels are left out.
pub fn label_counts(source: &dyn Source, split: Split) -> Option<LabelCounts> {
    let TargetSpec::Labels { count } = source.spec().target else {
        return None;
    };
    let mut counts = LabelCounts { samples: vec![0; count], ..LabelCounts::default() };
    for index in 0..source.len(split) {
        if let Ok(Some(labels)) = source.labels(split, index) {
            counts.without += usize::from(labels.is_empty());
            counts.most = counts.most.max(labels.len());
            for label in labels {
                counts.samples.get_mut(label).into_iter().for_each(|count| *count += 1);
            }
        }
    }
    Some(counts)
}
