use std::{fmt, path::PathBuf, sync::Arc};

use oomph_core::{Bytes, Key, SampleSpec, Split, TargetSpec};
use oomph_tokens::Tokenizer;

use crate::{
    Columns, DataError, ImageReader, Level, OpenEvent, SampleError, SourceRecord,
    stored::StoredSample,
    transform::{Normalize, Statistics},
};

/// A set of samples in two parts: training and held-out.
///
/// Implement it for your own data. Worker threads call [`sample`](Self::sample) concurrently and in any order, so its
/// result must depend on its arguments alone.
pub trait Source: Send + Sync {
    /// The shape of every sample.
    fn spec(&self) -> &SampleSpec;

    /// The names of the classes, in the order of their indices, if they have names.
    fn class_names(&self) -> Option<&[String]> {
        None
    }

    /// The reader that turns an image file into an input like those of the samples; `None` unless samples are images that
    /// could come from files. Checkpoints save it, so that a trained model predicts images without the data.
    fn image_reader(&self) -> Option<ImageReader> {
        None
    }

    /// The kind of tokens if samples are text with a listed vocabulary; [`class_names`](Self::class_names) lists the tokens. Checkpoints save it, so
    /// that a trained model continues a text without the data.
    fn level(&self) -> Option<Level> {
        None
    }

    /// The tokenizer if samples are text by byte-pair encoding. Checkpoints save it, as they save a vocabulary.
    fn tokenizer(&self) -> Option<&Tokenizer> {
        None
    }

    /// Whether samples are text.
    fn is_text(&self) -> bool {
        self.level().is_some() || self.tokenizer().is_some()
    }

    /// UTF-8 bytes of the held-out text for each of its tokens; `None` if samples are no text, or if nothing is held out. The
    /// loss of a token divided by it is the loss of a byte, which does not depend on the vocabulary.
    fn held_out_bytes_per_token(&self) -> Option<f64> {
        None
    }

    /// The mean and standard deviation of each channel or column that normalise the inputs; empty ones if nothing does,
    /// `None` if that is not known. Checkpoints save them, so that an evaluation on other data normalises as the training
    /// did.
    fn statistics(&self) -> Option<Statistics> {
        None
    }

    /// The names of the columns, if samples are rows of a table. Checkpoints save them.
    fn columns(&self) -> Option<Columns> {
        None
    }

    /// A digest of the data: of its values where they are in memory, else of the list of its files. `None` if it has none.
    /// Checkpoints save it, so that a resumed training tells that its data changed.
    fn digest(&self) -> Option<String> {
        None
    }

    /// The number of samples of a part.
    fn len(&self, split: Split) -> usize;

    /// Whether the data is not there, and the source tells only what the settings declare: enough to plan, and not to train.
    fn is_declared(&self) -> bool {
        false
    }

    /// Whether each sample continues the one before it, like the pieces of a text.
    ///
    /// Each place in the batch is then a stream of consecutive samples, and a recurrent model keeps its state from one
    /// batch to the next.
    fn is_continuous(&self) -> bool {
        false
    }

    /// The sample at `index`, which is below [`len`](Self::len).
    ///
    /// `augment` is the key of (seed, epoch, index) in training and `None` elsewhere. All randomness of a sample comes
    /// from this key, so that a resumed run sees the same samples.
    ///
    /// # Errors
    /// A sample that cannot be read. [`OnCorrupt`](crate::OnCorrupt) decides whether that ends the run.
    fn sample(&self, split: Split, index: usize, augment: Option<Key>) -> Result<Sample, SampleError>;

    /// The sample at `index` in an epoch of training. `epoch` is the key of (seed, epoch); `augment` is that of
    /// [`sample`](Self::sample), which is the default. Override it if each epoch cuts the data into samples at places of its
    /// own, as that of a text does. Their number stays [`len`](Self::len).
    ///
    /// # Errors
    /// As [`sample`](Self::sample).
    fn sample_in_epoch(
        &self,
        split: Split,
        index: usize,
        _epoch: Key,
        augment: Key,
    ) -> Result<Sample, SampleError> {
        self.sample(split, index, Some(augment))
    }

    /// The class of the sample at `index`; `None` if its target is no class. The default reads the sample. Override it where
    /// the class is known without.
    ///
    /// # Errors
    /// A sample that has to be read and cannot be.
    fn class(&self, split: Split, index: usize) -> Result<Option<usize>, SampleError> {
        Ok(match self.sample(split, index, None)?.target {
            Target::Class(class) => Some(class),
            Target::Labels(_) | Target::Values(_) | Target::Tokens(_) => None,
        })
    }

    /// The labels of the sample at `index`; `None` if targets are no labels. The default reads the sample if they are. Override
    /// it where the labels are known without.
    ///
    /// # Errors
    /// A sample that has to be read and cannot be.
    fn labels(&self, split: Split, index: usize) -> Result<Option<Vec<usize>>, SampleError> {
        if !matches!(self.spec().target, TargetSpec::Labels { .. }) {
            return Ok(None);
        }
        Ok(match self.sample(split, index, None)?.target {
            Target::Labels(labels) => Some(labels),
            Target::Class(_) | Target::Values(_) | Target::Tokens(_) => None,
        })
    }

    /// Reads a sample for a survey, as it is [stored](crate::stored): before it is resized and normalised. The default makes
    /// the sample and reports nothing of its storage.
    ///
    /// # Errors
    /// A sample that cannot be read.
    fn inspect(&self, split: Split, index: usize) -> Result<StoredSample, SampleError> {
        self.sample(split, index, None).map(|_| StoredSample::default())
    }

    /// How the samples differ from what is stored in a way that a user should know, each as a sentence: such as colours that are
    /// dropped. It may look into some files.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// How the held-out part was chosen, as a noun phrase for people; `None` if the source does not tell.
    fn held_out_origin(&self) -> Option<String> {
        None
    }

    /// The name of the sample in messages: its file, or else its part and index.
    fn sample_name(&self, split: Split, index: usize) -> String {
        format!("{split} sample {index}")
    }

    /// The host memory that the source itself holds at present.
    fn host_bytes(&self) -> Bytes {
        Bytes::default()
    }
}

/// A value for each part of a source.
#[derive(Clone)]
pub(crate) struct Parts<T> {
    pub(crate) train: T,
    pub(crate) test: T,
}

impl<T> Parts<T> {
    pub(crate) fn of(&self, split: Split) -> &T {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }
}

/// A source that is configured but not open: its settings are checked, and nothing was read from disk.
///
/// Reading and opening are two steps, so that a configuration can be checked on a machine without the data.
pub trait OpenSource {
    /// Opens the source. This is its first access to the disk.
    ///
    /// # Errors
    /// Data that is missing or has another layout.
    fn open(&self, context: &OpenContext) -> Result<Arc<dyn Source>, DataError>;

    /// A stand-in for data that is not there, if the settings tell its shape: it has no samples, and is enough to plan.
    fn declared(&self) -> Option<Arc<dyn Source>> {
        None
    }
}

/// The context in which a source is opened, beside its own settings.
#[derive(Clone)]
pub struct OpenContext {
    /// The folder that keeps results of long computations between runs. It is created on the first write.
    pub cache_dir: PathBuf,
    /// The seed of the run.
    pub seed: u64,
    /// The memory that the data may take; `None` if it is not known.
    pub free_bytes: Option<Bytes>,
    observer: Option<Arc<OpenObserver>>,
    record: Option<Arc<SourceRecord>>,
}

/// The receiver of events while data is opened.
pub type OpenObserver = dyn Fn(&OpenEvent<'_>) + Send + Sync;

impl OpenContext {
    /// A context without an observer.
    pub fn new(cache_dir: impl Into<PathBuf>, seed: u64) -> Self {
        Self { cache_dir: cache_dir.into(), seed, free_bytes: None, observer: None, record: None }
    }

    /// The context with an observer.
    #[must_use]
    pub fn with_observer(self, observer: Arc<OpenObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The context of data for a trained model. Where the settings leave statistics and columns to the data, the recorded
    /// ones hold; the recorded tokenizer where its file is not there.
    #[must_use]
    pub fn with_record(self, record: SourceRecord) -> Self {
        Self { record: Some(Arc::new(record)), ..self }
    }

    /// The statistics to normalise `count` channels by; `None` for those of the training images.
    pub(crate) fn known(&self, normalize: &Normalize, count: usize) -> Option<Statistics> {
        normalize.known().or_else(|| self.recorded_statistics(count))
    }

    /// The recorded statistics of `count` channels or columns.
    pub(crate) fn recorded_statistics(&self, count: usize) -> Option<Statistics> {
        let statistics = self.record.as_ref()?.trained_statistics()?;
        statistics.is_of(count).then(|| statistics.clone())
    }

    /// The recorded tokenizer.
    pub(crate) fn recorded_tokenizer(&self) -> Option<&Tokenizer> {
        self.record.as_ref()?.tokenizer.as_ref()
    }

    /// The recorded columns.
    pub(crate) fn recorded_columns(&self) -> Option<&Columns> {
        self.record.as_ref()?.columns.as_ref()
    }

    /// Sends an event to the observer, if there is one.
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

/// One sample: the input of the model and the target of its output.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The input, as specified by [`SampleSpec::input`].
    pub input: Values,
    /// The target, as specified by [`SampleSpec::target`].
    pub target: Target,
}

/// The numbers of an input, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// The values of images, sequences and vectors.
    Floats(Vec<f32>),
    /// Indices of tokens.
    Tokens(Vec<i32>),
}

impl Values {
    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Tokens(values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The target of one sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// The index of a class.
    Class(usize),
    /// The indices of labels, any number of them.
    Labels(Vec<usize>),
    /// A vector of numbers.
    Values(Vec<f32>),
    /// The index of a token at each time step.
    Tokens(Vec<i32>),
}
