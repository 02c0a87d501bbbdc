//! Data sources, transforms and the prefetching loader of oomph.
//!
//! - [`Source`]: a set of samples with a part to train on and a part held out. Implement it for your own data.
//! - [`digits`], [`folder`], [`cifar10`], [`idx`], [`csv()`], [`synthetic`], [`text`]: the sources that come with oomph, read
//!   from the section `[data]`.
//! - [`Order`]: which samples make which batch of which epoch.
//! - [`Loader`]: the [`Batch`]es of an epoch, loaded ahead by threads.
//! - [`transform`]: crop, flip and normalisation of images.
//! - [`SourceRecord`]: what of a source a trained model needs when it is asked about [`ImageFiles`] or a [`Prompt`].
//! - [`mod@download`]: fetches a file that has a public home, where a user asks for it.
//!
//! ```
//! use std::sync::Arc;
//!
//! use oomph_core::{InputSpec, Key, SampleSpec, Split, TargetSpec};
//! use oomph_data::{Loader, LoaderOptions, Order, Sample, SampleError, Source, Target, Targets, Values};
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
//! let order = Order::eval(10, 4);
//! let options = LoaderOptions::default();
//! let loader = Loader::start(Arc::new(Parity(spec)), Split::Test, order, 0, 0, None, &options);
//! let batches = loader.collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(batches.len(), 3);
//! assert_eq!(batches[0].shape, [4, 1]);
//! assert_eq!(batches[0].targets, Targets::Classes(vec![0, 1, 0, 1]));
//! # Ok::<(), oomph_data::DataError>(())
//! ```
//!
//! What a batch holds follows from the settings, the seed, the epoch and its position: not from the number of
//! threads, nor from what was loaded before.
//!
//! It makes numbers in host memory: it knows nothing of Burn and devices, never prints, and downloads
//! nothing unless `data.download` is `true`.

mod batch;
mod cifar10;
mod digits;
pub mod download;
mod error;
mod flaw;
mod folder;
mod idx;
mod image_files;
mod image_reader;
mod images;
mod input;
mod loader;
mod options;
mod order;
#[doc(hidden)]
pub mod parsers;
mod record;
mod series;
mod source;
mod synthetic;
mod text;
pub mod transform;

pub use batch::{Batch, Targets};
pub use cifar10::cifar10;
pub use digits::digits;
pub use download::DownloadError;
pub use error::{DataError, SampleError};
pub use flaw::{Flaw, FormatError, FormatProblem};
pub use folder::{folder, image_files};
pub use idx::idx;
pub use image_files::ImageFiles;
pub use image_reader::ImageReader;
pub use loader::Loader;
pub use options::{LoaderOptions, OnCorrupt};
pub use order::{LastBatch, Order};
pub use record::{OtherClass, SourceRecord};
pub use series::csv;
pub use source::{OpenContext, OpenEvent, OpenObserver, OpenSource, Sample, Source, Target, Values};
pub use synthetic::synthetic;
pub use text::{Level, Prompt, Vocabulary, VocabularyProblem, text};
