//! How the training samples of an epoch are chosen.

use std::sync::Arc;

use oomph_core::{Generator, Key, Split, TargetSpec};

use crate::Source;

/// How the training samples of an epoch are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// Every sample once, in a random order.
    #[default]
    Shuffled,
    /// As many samples as there are, drawn with replacement: a class with samples, each equally likely, then one of its
    /// samples. As PyTorch's `WeightedRandomSampler` with weights of 1 / nₖ for the samples of a class of nₖ.
    Balanced(ClassMembers),
}

/// The indices of the training samples of each class that has some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassMembers(Arc<[Vec<usize>]>);

impl ClassMembers {
    /// The members of the classes of a source. Samples without a readable class are in none.
    pub fn of(source: &dyn Source) -> Self {
        let TargetSpec::Class { count } = source.spec().target else {
            return Self::default();
        };
        let mut members = vec![Vec::new(); count];
        for index in 0..source.len(Split::Train) {
            if let Ok(Some(class)) = source.class(Split::Train, index)
                && let Some(of_class) = members.get_mut(class)
            {
                of_class.push(index);
            }
        }
        Self(members.into_iter().filter(|of_class| !of_class.is_empty()).collect())
    }

    /// Whether no sample has a class.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Draws `count` samples; none if there are no members.
    pub(crate) fn draw(&self, count: usize, generator: &mut Generator) -> Vec<usize> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut one = || {
            let of_class = &self.0[generator.below(self.0.len())];
            of_class[generator.below(of_class.len())]
        };
        (0..count).map(|_| one()).collect()
    }
}

/// The key of augmentation in an epoch; with the index of a sample, that of the sample.
pub fn augment_key(seed: u64, epoch: usize) -> Key {
    Key::new(seed).with_name("augment").with(epoch as u64)
}
