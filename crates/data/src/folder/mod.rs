mod cache;
mod decode;
mod files;
mod jpeg;
mod scan;
mod settings;
mod statistics;
mod statistics_cache;

use std::sync::Arc;

use oomph_core::{Bytes, Key, SampleSpec, Split, TargetSpec};

use self::{
    cache::PixelCache,
    scan::Part,
    settings::{CacheChoice, Settings},
};
pub(crate) use self::{
    decode::{Decoder, Resize},
    settings::MAX_FILE_BYTES,
};
pub use self::{files::image_files, settings::folder};
use crate::{
    DataError, ImageReader, OnCorrupt, OpenContext, OpenSource, Sample, SampleError, Source, Target, Values,
    transform::{ImageShape, ImageTransform, Statistics},
};

impl OpenSource for Settings {
    fn open(&self, context: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        let listing = scan::scan(&self.path)?;
        let shape = match self.size {
            Some((height, width)) => ImageShape { channels: self.channels, height, width },
            None => first_size(&listing.train, self)?,
        };
        let train = Images::new(listing.train, shape, self);
        let test = Images::new(listing.test, shape, self);
        let statistics = self
            .transform
            .normalize
            .statistics(|| statistics_cache::recall_or_compute(&train, shape, self, context))?;
        Ok(Arc::new(Folder::new(listing.classes, train, test, shape, self, &statistics)))
    }
}

/// The size of the first training image that can be decoded.
fn first_size(train: &Part, settings: &Settings) -> Result<ImageShape, DataError> {
    let mut first_error = None;
    for index in 0..train.len() {
        match settings.decoder().size(&train.path(index)) {
            Ok((height, width)) => return Ok(ImageShape { channels: settings.channels, height, width }),
            Err(error) => {
                let error = SampleError::new(train.name(index), error);
                if settings.on_corrupt == OnCorrupt::Fail {
                    return Err(error.into());
                }
                first_error.get_or_insert(error);
            }
        }
    }
    Err(match first_error {
        Some(first) => DataError::NothingReadable { count: train.len(), first },
        None => DataError::NoClasses { path: train.root().to_owned() },
    })
}

/// Images of one part: where they are, how they are decoded, and those decoded before.
struct Images {
    part: Part,
    decoder: Decoder,
    shape: ImageShape,
    cache: Option<PixelCache>,
}

impl Images {
    fn new(part: Part, shape: ImageShape, settings: &Settings) -> Self {
        /// `cache = "auto"` keeps a part that takes no more than this.
        const AUTO: usize = 1 << 30;
        let bytes = part.len().saturating_mul(shape.elements());
        let keep = match settings.cache {
            CacheChoice::Auto => bytes <= AUTO,
            CacheChoice::Memory => true,
            CacheChoice::None => false,
        };
        let cache = keep.then(|| PixelCache::new(part.len()));
        Self { part, decoder: settings.decoder(), shape, cache }
    }

    /// Hands the pixels of an image to `use_pixels`.
    fn pixels<T>(&self, index: usize, use_pixels: impl FnOnce(&[u8]) -> T) -> Result<T, SampleError> {
        let decode = || {
            self.decoder
                .decode(&self.part.path(index), self.shape)
                .map_err(|error| SampleError::new(self.part.name(index), error))
        };
        match &self.cache {
            Some(cache) => cache.get(index, decode).map(use_pixels),
            None => decode().map(|pixels| use_pixels(&pixels)),
        }
    }

    fn host_bytes(&self) -> Bytes {
        self.part.host_bytes() + self.cache.as_ref().map(PixelCache::host_bytes).unwrap_or_default()
    }
}

/// Photos in class folders.
struct Folder {
    spec: SampleSpec,
    class_names: Vec<String>,
    train: Images,
    test: Images,
    transform: ImageTransform,
    reader: ImageReader,
}

impl Folder {
    fn new(
        class_names: Vec<String>,
        train: Images,
        test: Images,
        shape: ImageShape,
        settings: &Settings,
        statistics: &Statistics,
    ) -> Self {
        Self {
            spec: SampleSpec { input: shape.into(), target: TargetSpec::Class { count: class_names.len() } },
            class_names,
            train,
            test,
            transform: ImageTransform::new(shape, &settings.transform, statistics, u8::MAX),
            reader: ImageReader::new(shape, statistics.clone()).with_decoder(settings.decoder()),
        }
    }

    fn images(&self, split: Split) -> &Images {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }
}

impl Source for Folder {
    fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    fn class_names(&self) -> Option<&[String]> {
        Some(&self.class_names)
    }

    fn len(&self, split: Split) -> usize {
        self.images(split).part.len()
    }

    fn sample(&self, split: Split, index: usize, augment: Option<Key>) -> Result<Sample, SampleError> {
        let images = self.images(split);
        let values = images.pixels(index, |pixels| self.transform.apply(pixels, augment))?;
        Ok(Sample { input: Values::Floats(values), target: Target::Class(images.part.class(index)) })
    }

    fn image_reader(&self) -> Option<ImageReader> {
        Some(self.reader.clone())
    }

    fn sample_name(&self, split: Split, index: usize) -> String {
        format!("`{}`", self.images(split).part.name(index))
    }

    fn host_bytes(&self) -> Bytes {
        self.train.host_bytes() + self.test.host_bytes()
    }
}
