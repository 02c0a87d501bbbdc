use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use oomph_core::{Bytes, Key, SampleSpec, Split};

use crate::{DataError, SampleError};

/// A set of samples in two parts, one to train on and one held out.
///
/// Implement it for your own data. Worker threads call [`sample`](Self::sample) at the same time and in any
/// order, so what it returns must depend on its arguments alone.
pub trait Source: Send + Sync {
    /// What every sample looks like.
    fn spec(&self) -> &SampleSpec;

    /// The names of the classes, in the order of their indices, where they have names.
    fn class_names(&self) -> Option<&[String]> {
        None
    }

    /// The number of samples of a part.
    fn len(&self, split: Split) -> usize;

    /// The sample at `index`, which is below [`len`](Self::len).
    ///
    /// `augment` is the key of (seed, epoch, index) in training and `None` elsewhere: all that is random about a
    /// sample is drawn from it, so that a resumed run sees the same samples.
    ///
    /// # Errors
    /// A sample that cannot be read. Whether that ends the run is decided by [`OnCorrupt`](crate::OnCorrupt).
    fn sample(&self, split: Split, index: usize, augment: Option<Key>) -> Result<Sample, SampleError>;

    /// How messages call the sample: the name of its file, or where there is none, its part and index.
    fn sample_name(&self, split: Split, index: usize) -> String {
        format!("{split} sample {index}")
    }

    /// What the source itself keeps in host memory at this moment.
    fn host_bytes(&self) -> Bytes {
        Bytes::default()
    }
}

/// The settings of a source, read and valid, before anything was looked for on disk.
///
/// Reading and opening are two steps so that the keys of a configuration can be checked where the data is not.
pub trait OpenSource {
    /// Opens the source: the first moment at which it touches the disk.
    ///
    /// # Errors
    /// Data that is missing or not laid out as expected.
    fn open(&self, context: &OpenContext) -> Result<Arc<dyn Source>, DataError>;
}

/// What a source is opened with beside its own settings.
#[derive(Clone)]
pub struct OpenContext {
    /// Where results that took long to compute are kept between runs. Created when first written to.
    pub cache_dir: PathBuf,
    /// The seed of the run.
    pub seed: u64,
    observer: Option<Arc<OpenObserver>>,
}

/// Whoever is told what happens while data is opened.
pub type OpenObserver = dyn Fn(&OpenEvent<'_>) + Send + Sync;

impl OpenContext {
    /// With nobody who is told what happens.
    pub fn new(cache_dir: impl Into<PathBuf>, seed: u64) -> Self {
        Self { cache_dir: cache_dir.into(), seed, observer: None }
    }

    /// With somebody who is told.
    #[must_use]
    pub fn with_observer(self, observer: Arc<OpenObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Tells what happens.
    pub fn tell(&self, event: &OpenEvent<'_>) {
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }
}

impl fmt::Debug for OpenContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cache_dir, seed, .. } = self;
        f.debug_struct("OpenContext")
            .field("cache_dir", cache_dir)
            .field("seed", seed)
            .finish_non_exhaustive()
    }
}

/// What happens while a source is opened and may take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenEvent<'a> {
    /// A file is on its way.
    Downloading {
        /// Where it comes from.
        url: &'a str,
        /// Bytes that are here.
        done: u64,
        /// Bytes of the whole file.
        total: u64,
    },
    /// A file is here, and is the right one.
    Downloaded {
        /// Where it comes from.
        url: &'a str,
        /// Its bytes.
        bytes: u64,
        /// Where it lies.
        path: &'a Path,
    },
    /// The files of an archive are being taken out.
    Unpacking {
        /// The archive.
        archive: &'a Path,
    },
}

/// One sample: what the model is given and what its output is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The input, as [`SampleSpec::input`] says.
    pub input: Values,
    /// The target, as [`SampleSpec::target`] says.
    pub target: Target,
}

/// The numbers of an input, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Of images, sequences and vectors.
    Floats(Vec<f32>),
    /// Indices of tokens.
    Tokens(Vec<i32>),
}

impl Values {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Tokens(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The target of one sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// The index of a class.
    Class(usize),
    /// A vector of numbers.
    Values(Vec<f32>),
}
