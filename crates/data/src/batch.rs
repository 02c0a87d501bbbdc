use std::ops::Range;

use oomph_core::TargetSpec;

use crate::{SampleError, Target, Values};

/// Samples in host memory, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The inputs of all samples.
    pub input: Values,
    /// The shape of `input`: the number of samples, then the shape of one.
    pub shape: Vec<usize>,
    /// The targets of all samples.
    pub targets: Targets,
    /// The number of samples; 0 if all were skipped.
    pub size: usize,
    /// The index of the batch in the epoch; a micro-batch has that of its batch.
    pub position: usize,
    /// Whether each sample continues the one at the same place of the previous batch: see
    /// [`Source::is_continuous`](crate::Source::is_continuous).
    pub continues: bool,
    /// The unreadable samples of this batch.
    pub skipped: Vec<SampleError>,
}

/// Inputs and targets of samples, one after the other.
pub(crate) struct Samples {
    pub(crate) input: Values,
    pub(crate) targets: Targets,
}

/// The targets of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// One class index per sample.
    Classes(Vec<i64>),
    /// Two class indices per sample, of samples mixed in pairs: see [`Mix`](crate::Mix).
    Mixed {
        /// The class of each sample.
        classes: Vec<i64>,
        /// The class of the sample that was mixed into it.
        partners: Vec<i64>,
        /// The share of `classes`, from 0 to 1. That of `partners` is the rest.
        share: f32,
    },
    /// For each sample how far it has each label: 1 or 0, or a share of samples that are mixed in pairs.
    Labels {
        /// The rows of the samples, one after the other.
        data: Vec<f32>,
        /// The number of different labels, the length of a row.
        count: usize,
    },
    /// One vector per sample.
    Values {
        /// The vectors, one after the other.
        data: Vec<f32>,
        /// The length of one vector.
        features: usize,
    },
    /// One token at each time step of each sample.
    Tokens {
        /// The tokens, sample after sample.
        data: Vec<i32>,
        /// The number of time steps.
        steps: usize,
    },
}

impl Batch {
    /// Micro-batches of `micro_batch` samples (0 counts as 1) in order; the last may be smaller.
    ///
    /// The first one has the skipped samples. A batch of at most `micro_batch` samples, an empty one too, is returned
    /// unchanged, so there is always at least one.
    pub fn split(mut self, micro_batch: usize) -> Vec<Self> {
        let micro_batch = micro_batch.max(1);
        if self.size <= micro_batch {
            return vec![self];
        }
        let starts = (0..self.size).step_by(micro_batch);
        let mut parts: Vec<_> =
            starts.map(|start| self.rows(start..self.size.min(start + micro_batch))).collect();
        parts[0].skipped = std::mem::take(&mut self.skipped);
        parts
    }

    /// A copy of the samples `rows`, which must be within the batch. It has no skipped samples.
    #[must_use]
    pub fn rows(&self, rows: Range<usize>) -> Self {
        let of = |length: usize| rows.start * length..rows.end * length;
        let in_sample = of(self.shape[1..].iter().product());
        let input = match &self.input {
            Values::Floats(values) => Values::Floats(values[in_sample].to_vec()),
            Values::Tokens(values) => Values::Tokens(values[in_sample].to_vec()),
        };
        let targets = match &self.targets {
            Targets::Classes(classes) => Targets::Classes(classes[of(1)].to_vec()),
            Targets::Mixed { classes, partners, share } => Targets::Mixed {
                classes: classes[of(1)].to_vec(),
                partners: partners[of(1)].to_vec(),
                share: *share,
            },
            Targets::Labels { data, count } => {
                Targets::Labels { data: data[of(*count)].to_vec(), count: *count }
            }
            Targets::Values { data, features } => {
                Targets::Values { data: data[of(*features)].to_vec(), features: *features }
            }
            Targets::Tokens { data, steps } => {
                Targets::Tokens { data: data[of(*steps)].to_vec(), steps: *steps }
            }
        };
        let (mut shape, size) = (self.shape.clone(), rows.len());
        shape[0] = size;
        let Self { position, continues, .. } = *self;
        Self { input, shape, targets, size, position, continues, skipped: Vec::new() }
    }
}

impl Targets {
    /// No targets, with capacity for `size` samples.
    pub(crate) fn with_capacity(spec: &TargetSpec, size: usize) -> Self {
        match *spec {
            TargetSpec::Class { .. } => Self::Classes(Vec::with_capacity(size)),
            TargetSpec::Labels { count } => Self::Labels { data: Vec::with_capacity(size * count), count },
            TargetSpec::Values { features } => {
                Self::Values { data: Vec::with_capacity(size * features), features }
            }
            TargetSpec::Tokens { steps, .. } => {
                Self::Tokens { data: Vec::with_capacity(size * steps), steps }
            }
        }
    }

    /// Adds the target of a sample, or returns it if its kind or length differs.
    pub(crate) fn push(&mut self, target: Target) -> Result<(), Target> {
        match (self, target) {
            (Self::Classes(classes), Target::Class(class)) => classes.push(class as i64),
            (Self::Labels { data, count }, Target::Labels(labels))
                if labels.iter().all(|label| label < count) =>
            {
                let start = data.len();
                data.resize(start + *count, 0.0);
                labels.into_iter().for_each(|label| data[start + label] = 1.0);
            }
            (Self::Values { data, features }, Target::Values(values)) if values.len() == *features => {
                data.extend(values);
            }
            (Self::Tokens { data, steps }, Target::Tokens(tokens)) if tokens.len() == *steps => {
                data.extend(tokens);
            }
            (_, target) => return Err(target),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch(size: usize) -> Batch {
        Batch {
            input: Values::Floats((0..size * 6).map(|value| value as f32).collect()),
            shape: vec![size, 2, 3],
            targets: Targets::Classes((0..size as i64).collect()),
            size,
            position: 4,
            continues: true,
            skipped: vec![SampleError::new("a", "gone")],
        }
    }

    proptest! {
        #[test]
        fn micro_batches_are_the_batch_in_order(size in 0usize..50, micro_batch in 1usize..20) {
            let parts = batch(size).split(micro_batch);
            prop_assert_eq!(parts.len(), size.div_ceil(micro_batch).max(1));
            let (mut inputs, mut classes) = (Vec::new(), Vec::new());
            for (index, part) in parts.into_iter().enumerate() {
                let last = (index + 1) * micro_batch >= size;
                prop_assert!(last || part.size == micro_batch);
                prop_assert_eq!(&part.shape, &[part.size, 2, 3]);
                prop_assert_eq!((part.position, part.continues), (4, true));
                prop_assert_eq!(part.skipped.len(), usize::from(index == 0));
                match (part.input, part.targets) {
                    (Values::Floats(values), Targets::Classes(targets)) => {
                        inputs.extend(values);
                        classes.extend(targets);
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            let whole = batch(size);
            prop_assert_eq!(Values::Floats(inputs), whole.input);
            prop_assert_eq!(Targets::Classes(classes), whole.targets);
        }
    }

    #[test]
    fn vectors_as_targets_are_split_with_their_samples() {
        let mut whole = batch(5);
        whole.targets = Targets::Values { data: (0..10).map(|value| value as f32).collect(), features: 2 };
        let parts = whole.split(3);
        assert_eq!(parts[1].targets, Targets::Values { data: vec![6., 7., 8., 9.], features: 2 });
    }

    #[test]
    fn labels_are_rows_of_ones_and_zeros_that_are_split_with_their_samples() {
        let mut labels = Targets::with_capacity(&TargetSpec::Labels { count: 3 }, 3);
        for of_sample in [vec![2, 0], vec![], vec![1]] {
            labels.push(Target::Labels(of_sample)).expect("three labels");
        }
        assert_eq!(labels.push(Target::Labels(vec![3])), Err(Target::Labels(vec![3])));
        let rows = |data: &[f32]| Targets::Labels { data: data.to_vec(), count: 3 };
        assert_eq!(labels, rows(&[1., 0., 1., 0., 0., 0., 0., 1., 0.]));
        let mut whole = batch(3);
        whole.targets = labels;
        assert_eq!(whole.split(2)[1].targets, rows(&[0., 1., 0.]));
    }

    #[test]
    fn mixed_classes_are_split_with_their_samples() {
        let mixed = |classes, partners| Targets::Mixed { classes, partners, share: 0.25 };
        let mut whole = batch(3);
        whole.targets = mixed(vec![1, 2, 3], vec![3, 1, 2]);
        assert_eq!(whole.split(2)[1].targets, mixed(vec![3], vec![2]));
    }

    #[test]
    fn tokens_as_targets_are_split_with_their_samples() {
        let mut whole = batch(3);
        whole.targets = Targets::Tokens { data: (0..6).collect(), steps: 2 };
        let parts = whole.split(2);
        assert_eq!(parts[1].targets, Targets::Tokens { data: vec![4, 5], steps: 2 });
    }
}
