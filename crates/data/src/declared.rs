use oomph_core::{Key, SampleSpec, Split};

use crate::{Sample, SampleError, Source};

/// A stand-in for data that is not there, for plans: its settings tell the shape of its samples.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    /// The shape of every sample.
    pub(crate) spec: SampleSpec,
    /// Samples to train on, and held out.
    pub(crate) samples: [usize; 2],
    /// Whether each sample continues the one before it.
    pub(crate) is_continuous: bool,
}

/// More samples than a batch has, where the settings do not tell the number.
pub(crate) const MANY: [usize; 2] = [1 << 16, 1 << 13];

impl Source for Declared {
    fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    fn len(&self, split: Split) -> usize {
        match split {
            Split::Train => self.samples[0],
            Split::Test => self.samples[1],
        }
    }

    fn is_continuous(&self) -> bool {
        self.is_continuous
    }

    fn is_declared(&self) -> bool {
        true
    }

    fn sample(&self, split: Split, index: usize, _: Option<Key>) -> Result<Sample, SampleError> {
        Err(SampleError::new(self.sample_name(split, index), "the data is not there"))
    }
}
