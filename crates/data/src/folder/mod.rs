mod decode;
mod files;
mod folder_images;
mod jpeg;
mod label_sets;
mod label_settings;
mod label_table;
mod labels;
mod scan;
mod settings;
mod statistics;
mod statistics_cache;

use std::sync::Arc;

use oomph_core::{Bytes, Key, SampleSpec, Split, TargetSpec};

pub(crate) use self::{
    decode::{ChannelChange, Decoder, MAX_FILE_BYTES, pixels},
    label_table::{Mark, SPLIT},
    labels::parse as parse_labels,
    scan::{is_image, sorted_entries},
    statistics_cache::decode as decode_statistics,
};
pub use self::{files::image_files, settings::folder};
use self::{
    folder_images::FolderImages,
    scan::{FolderListing, FolderPart},
    settings::FolderSettings,
};
use crate::{
    DataError, ImageReader, OnCorrupt, OpenContext, OpenSource, Sample, SampleError, Source, Target, Values,
    declared::{Declared, MANY},
    digest::Digest,
    image_reader::spread,
    source::Parts,
    stored::StoredSample,
    transform::{ImageShape, ImageTransform, Statistics},
};

impl OpenSource for FolderSettings {
    fn open(&self, context: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        let listing = self.listing()?;
        if let Some(declared) = self.classes.filter(|declared| *declared != listing.classes.len()) {
            let path =
                self.labels.as_ref().map_or_else(|| self.path.get(), |labels| Ok(labels.path.as_path()))?;
            let (path, found) = (path.to_owned(), listing.classes.len());
            let what = if listing.label_sets.is_some() { "labels" } else { "classes" };
            return Err(DataError::OtherClasses { path, what, found, declared });
        }
        let shape = match self.size {
            Some((height, width)) => ImageShape { channels: self.channels, height, width },
            None => first_size(&listing.train, self)?,
        };
        let train = FolderImages::new(listing.train, shape, self.decoder, self.cache_of_training());
        let test = FolderImages::new(listing.test, shape, self.decoder, self.cache);
        let statistics = match context.known(&self.transform.normalize, shape.channels) {
            Some(statistics) => statistics,
            None => statistics_cache::recall_or_compute(&train, shape, self, context)?,
        };
        Ok(Arc::new(Folder {
            held_out: listing.held_out,
            spec: SampleSpec { input: shape.into(), target: self.target(listing.classes.len()) },
            class_names: listing.classes,
            label_sets: listing.label_sets,
            parts: Parts { train, test },
            transform: ImageTransform::new(shape, &self.transform, &statistics, u8::MAX)
                .with_resize(self.decoder.resize),
            reader: ImageReader::new(shape, statistics).with_decoder(self.decoder),
        }))
    }

    fn declared(&self) -> Option<Arc<dyn Source>> {
        let ((height, width), count) = (self.size?, self.classes?);
        let input = ImageShape { channels: self.channels, height, width }.into();
        let spec = SampleSpec { input, target: self.target(count) };
        Some(Arc::new(Declared { spec, samples: MANY, is_continuous: false }))
    }
}

impl FolderSettings {
    /// The target of `count` classes or labels.
    fn target(&self, count: usize) -> TargetSpec {
        match &self.labels {
            Some(labels) if labels.has_several() => TargetSpec::Labels { count },
            _ => TargetSpec::Class { count },
        }
    }

    /// The images of both parts with their classes.
    fn listing(&self) -> Result<FolderListing, DataError> {
        match &self.labels {
            Some(labels) => labels::scan(labels, self.path.given(), &self.holdout, self.on_corrupt),
            None => scan::scan(self.path.get()?, &self.holdout),
        }
    }
}

/// The size of the first training image that can be decoded.
fn first_size(train: &FolderPart, settings: &FolderSettings) -> Result<ImageShape, DataError> {
    let mut first_error = None;
    for index in 0..train.len() {
        match settings.decoder.size(&train.path(index)) {
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

/// Images in class folders or of a table.
struct Folder {
    spec: SampleSpec,
    class_names: Vec<String>,
    /// The labels of each group of a part, where images have any number of labels.
    label_sets: Option<Parts<Vec<Box<[usize]>>>>,
    parts: Parts<FolderImages>,
    transform: ImageTransform,
    reader: ImageReader,
    /// How the held-out part was chosen.
    held_out: String,
}

impl Folder {
    fn target(&self, split: Split, index: usize) -> Target {
        let group = self.parts.of(split).part.class(index);
        match &self.label_sets {
            Some(sets) => Target::Labels(sets.of(split)[group].to_vec()),
            None => Target::Class(group),
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
        self.parts.of(split).part.len()
    }

    fn sample(&self, split: Split, index: usize, augment: Option<Key>) -> Result<Sample, SampleError> {
        let images = self.parts.of(split);
        let values = match augment {
            Some(key) if self.transform.crops_whole_images() => {
                self.transform.apply_whole(images.whole(index)?.view(), key)
            }
            _ => images.pixels(index, |pixels| self.transform.apply(pixels, augment))?,
        };
        Ok(Sample { input: Values::Floats(values), target: self.target(split, index) })
    }

    fn class(&self, split: Split, index: usize) -> Result<Option<usize>, SampleError> {
        Ok(match self.target(split, index) {
            Target::Class(class) => Some(class),
            _ => None,
        })
    }

    fn labels(&self, split: Split, index: usize) -> Result<Option<Vec<usize>>, SampleError> {
        Ok(match self.target(split, index) {
            Target::Labels(labels) => Some(labels),
            _ => None,
        })
    }

    fn inspect(&self, split: Split, index: usize) -> Result<StoredSample, SampleError> {
        self.parts.of(split).inspect(index)
    }

    fn held_out_origin(&self) -> Option<String> {
        Some(self.held_out.clone())
    }

    fn notices(&self) -> Vec<String> {
        let part = &self.parts.train.part;
        let files: Vec<_> = spread(part.len()).map(|index| part.path(index)).collect();
        self.reader.channel_notice(&files).into_iter().collect()
    }

    fn image_reader(&self) -> Option<ImageReader> {
        Some(self.reader.clone())
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.reader.statistics().clone())
    }

    fn digest(&self) -> Option<String> {
        let mut digest = Digest::new();
        self.parts.train.part.add_to(&mut digest);
        self.parts.test.part.add_to(&mut digest);
        Some(digest.finish())
    }

    fn sample_name(&self, split: Split, index: usize) -> String {
        format!("`{}`", self.parts.of(split).part.name(index))
    }

    fn host_bytes(&self) -> Bytes {
        let sets = self.label_sets.iter().flat_map(|sets| sets.train.iter().chain(&sets.test));
        let of_sets: usize = sets.map(|set| size_of::<Box<[usize]>>() + size_of_val(&**set)).sum();
        self.parts.train.host_bytes() + self.parts.test.host_bytes() + Bytes::new(of_sets as u64)
    }
}
