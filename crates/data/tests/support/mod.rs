//! Shared by the tests of this crate.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use image::{DynamicImage, ExtendedColorType, RgbImage, codecs::jpeg::JpegEncoder};
use oomph_config::Section;
use oomph_core::{Generator, Key, Split};
use oomph_data::{
    Batch, DataError, LastBatch, Loader, LoaderOptions, OnCorrupt, OpenContext, SampleOrder, Source,
};
use oomph_test_support::{Missing, skip};

/// An image whose pixels follow from `seed`.
pub(crate) fn photo(seed: u64, width: u32, height: u32) -> RgbImage {
    let mut generator = Generator::at(Key::new(seed));
    RgbImage::from_fn(width, height, |x, y| {
        let noise = generator.below(40) as u8;
        image::Rgb([(x * 5) as u8 ^ noise, (y * 7) as u8 ^ noise, (seed * 31) as u8])
    })
}

/// The bytes of a JPEG.
pub(crate) fn jpeg(seed: u64, width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, 90)
        .encode(photo(seed, width, height).as_raw(), width, height, ExtendedColorType::Rgb8)
        .expect("written to memory");
    bytes
}

/// The bytes of a PNG.
pub(crate) fn png(image: impl Into<DynamicImage>) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.into().write_to(&mut bytes, image::ImageFormat::Png).expect("written to memory");
    bytes.into_inner()
}

/// A folder of images in a temporary directory, and a cache directory.
pub(crate) struct Photos {
    directory: tempfile::TempDir,
}

impl Photos {
    /// No files at all.
    pub(crate) fn nothing() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    /// Two classes, `cat` and `dog`, with three photos each to train on and two each to test on.
    pub(crate) fn cats_and_dogs() -> Self {
        let photos = Self::nothing();
        for (split, count) in [("train", 3), ("test", 2)] {
            for (class, name) in ["cat", "dog"].into_iter().enumerate() {
                for index in 0..count {
                    let seed = (class * 10 + index) as u64 + if split == "test" { 100 } else { 0 };
                    photos.write(&format!("{split}/{name}/{index}.jpg"), &jpeg(seed, 20, 16));
                }
            }
        }
        photos
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("photos")
    }

    pub(crate) fn cache_dir(&self) -> PathBuf {
        self.directory.path().join("cache")
    }

    pub(crate) fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("within the folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.root().join(path)).expect("the file was there");
    }

    /// Opens the folder, with `text` as further settings.
    pub(crate) fn open(&self, text: &str) -> Result<Arc<dyn Source>, DataError> {
        open_folder(&self.root(), &self.cache_dir(), text)
    }

    /// The error of opening the folder.
    pub(crate) fn error(&self, text: &str) -> DataError {
        match self.open(text) {
            Ok(_) => panic!("the folder was opened"),
            Err(error) => error,
        }
    }
}

pub(crate) fn open_folder(path: &Path, cache_dir: &Path, text: &str) -> Result<Arc<dyn Source>, DataError> {
    let text = format!("path = '{}'\n{text}", path.display());
    let section = Section::from_toml("data", &text).expect("valid TOML");
    let context = OpenContext::new(cache_dir.to_owned(), 0);
    oomph_data::folder(&section).expect("valid settings").open(&context)
}

pub(crate) fn options(workers: usize, on_corrupt: OnCorrupt) -> LoaderOptions {
    LoaderOptions { on_corrupt, ..LoaderOptions::with_workers(workers) }
}

/// All batches of one epoch of training, up to an error.
pub(crate) fn epoch(
    source: &Arc<dyn Source>,
    batch: usize,
    epoch: usize,
    options: &LoaderOptions,
) -> Result<Vec<Batch>, DataError> {
    let order = SampleOrder::train(source.len(Split::Train), batch, 5, LastBatch::Keep);
    Loader::start(source.clone(), Split::Train, order, epoch, 0, Some(5), options).collect()
}

/// `../shared/data/cifar10-mini` beside the repository. Without it the test is reported as skipped.
pub(crate) fn real_photos() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/cifar10-mini");
    if path.is_dir() {
        return Some(path);
    }
    skip(Missing::Photos);
    None
}
