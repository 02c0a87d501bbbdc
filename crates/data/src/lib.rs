//! Data sources, transforms and the prefetching loader of oomph.
//!
//! - [`Source`]: a set of samples with a training part and a held-out part. Implement it for your own data.
//! - [`digits`], [`folder`], [`cifar10`], [`idx`], [`csv()`], [`synthetic`], [`text`]: the built-in sources, read from
//!   the section `[data]`.
//! - [`detect`]: which source reads a file or folder, and with which settings.
//! - [`SampleOrder`]: the samples of each batch of each epoch.
//! - [`sampling`]: shuffled samples, or as many of each class.
//! - [`Loader`]: the [`Batch`]es of an epoch, prefetched by threads.
//! - [`stored`]: samples as they are stored, and how many there are of each class.
//! - [`transform`]: augmentation and normalisation of images. [`Mix`]: mixup and CutMix of batches.
//! - [`SourceRecord`]: the facts about a source that a trained model needs to predict [`ImageFiles`] or continue a
//!   [`Prompt`].
//! - [`tokens`]: a text to tokens and back.
//! - [`download`]: fetches a public file on request of the user.
//!
//! ```
//! use std::sync::Arc;
//!
//! use oomph_core::{InputSpec, Key, SampleSpec, Split, TargetSpec};
//! use oomph_data::{Loader, LoaderOptions, SampleOrder, Sample, SampleError, Source, Target, Targets, Values};
//!
//! /// Is a number even?
//! struct Parity(SampleSpec);
//!
//! impl Source for Parity {
//!     fn spec(&self) -> &SampleSpec {
//!         &self.0
//!     }
//!
//!     fn len(&self, _: Split) -> usize {
//!         10
//!     }
//!
//!     fn sample(&self, _: Split, index: usize, _: Option<Key>) -> Result<Sample, SampleError> {
//!         Ok(Sample { input: Values::Floats(vec![index as f32]), target: Target::Class(index % 2) })
//!     }
//! }
//!
//! let spec = SampleSpec { input: InputSpec::Vector { features: 1 }, target: TargetSpec::Class { count: 2 } };
//! let order = SampleOrder::eval(10, 4);
//! let options = LoaderOptions::default();
//! let loader = Loader::start(Arc::new(Parity(spec)), Split::Test, order, 0, 0, None, &options);
//! let batches = loader.collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(batches.len(), 3);
//! assert_eq!(batches[0].shape, [4, 1]);
//! assert_eq!(batches[0].targets, Targets::Classes(vec![0, 1, 0, 1]));
//! # Ok::<(), oomph_data::DataError>(())
//! ```
//!
//! The content of a batch depends on the settings, the seed, the epoch and its position alone, not on the number of
//! threads or on earlier batches.
//!
//! All numbers are in host memory. The crate knows nothing of Burn and devices, never prints, and downloads only if
//! `data.download` is `true`.

mod batch;
mod cifar10;
mod declared;
pub mod detect;
mod digest;
mod digits;
mod error;
mod flaw;
mod folder;
mod idx;
mod image_files;
mod image_reader;
mod input;
mod loader;
mod memory_images;
mod mix;
mod options;
#[doc(hidden)]
pub mod parsers;
mod place;
mod record;
mod sample_order;
pub mod sampling;
mod series;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of downloads need more answers")]
#[path = "../../download/src/tests/server.rs"]
mod server;
mod source;
pub mod stored;
mod synthetic;
mod text;

/// Downloads of public files: the crate `oomph-download`.
pub mod download {
    pub use oomph_download::*;
}

/// Tokens of texts: the crate `oomph-tokens`.
pub mod tokens {
    pub use oomph_tokens::*;

    pub use crate::text::train_tokenizer;
}

/// The transforms of images: the crate `oomph-transform`.
pub mod transform {
    pub use oomph_transform::*;
}

pub use batch::{Batch, Targets};
pub use cifar10::cifar10;
pub use digits::digits;
pub use download::{DownloadError, OpenEvent};
pub use error::{DataError, SampleError};
pub use flaw::{Flaw, FormatError, FormatProblem};
pub use folder::{folder, image_files};
pub use idx::idx;
pub use image_files::ImageFiles;
pub use image_reader::ImageReader;
pub use loader::Loader;
pub use mix::Mix;
pub use options::{LoaderOptions, OnCorrupt};
pub use record::{Columns, DataDigest, OtherClass, SourceRecord};
pub use sample_order::{LastBatch, SampleOrder};
pub use series::csv;
pub use source::{OpenContext, OpenObserver, OpenSource, Sample, Source, Target, Values};
pub use synthetic::synthetic;
pub use text::{Prompt, text};
pub use tokens::{Level, Vocabulary, VocabularyProblem};
