mod known;
mod parse;
mod pixel_layout;
mod settings;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

pub(crate) use self::parse::{Content, Idx};
pub use self::settings::idx;
use self::{known::KnownImages, pixel_layout::planar, settings::IdxSettings};
use oomph_core::{SampleSpec, TargetSpec};

use crate::{
    DataError, Flaw, FormatProblem, OpenContext, OpenSource, Source,
    declared::Declared,
    download::{Remote, download},
    input::read_file,
    memory_images::{Classes, ImagePart, LabelRule, Labels, MemoryImages, PixelBlock, file_name},
    source::Parts,
    transform::ImageShape,
};

impl OpenSource for IdxSettings {
    fn open(&self, context: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        self.fetch(
            &self.name.filter(|_| self.download).map(KnownImages::files).unwrap_or_default(),
            context,
        )?;
        let find = |given: &Option<String>, stems: &[&'static str], kind: &'static str| match given {
            Some(name) => Ok(self.path.join(name)),
            None => find(&self.path, stems, kind, self.name.is_some()),
        };
        let [train_images, train_labels, test_images, test_labels] = &self.files;
        let train_images = find(train_images, &["train-images"], "idx3")?;
        let train_labels = find(train_labels, &["train-labels"], "idx1")?;
        let test_images = find(test_images, &["t10k-images", "test-images"], "idx3")?;
        let test_labels = find(test_labels, &["t10k-labels", "test-labels"], "idx1")?;
        let train = IdxPart::read(train_images, train_labels, self)?;
        let test = IdxPart::read(test_images, test_labels, self)?;
        let shape = train.shape;
        let class_names = self.name.map(KnownImages::class_names);
        let classes = self.classes.or(class_names.as_ref().map(Vec::len));
        let classes = classes.unwrap_or_else(|| train.classes(self.first_label));
        let names = class_names.filter(|names| names.len() == classes);
        let test = test.labelled(self, classes, Some(shape))?;
        let train = train.labelled(self, classes, None)?;
        let classes = Classes { count: classes, names };
        Ok(Arc::new(MemoryImages::new(
            Parts { train, test },
            shape,
            u8::MAX,
            classes,
            &self.transform,
            context,
        )))
    }

    /// MNIST and Fashion-MNIST have the same shape.
    fn declared(&self) -> Option<Arc<dyn Source>> {
        self.name?;
        let input = ImageShape { channels: 1, height: 28, width: 28 }.into();
        let spec = SampleSpec { input, target: TargetSpec::Class { count: self.classes.unwrap_or(10) } };
        Some(Arc::new(Declared { spec, samples: [60_000, 10_000], is_continuous: false }))
    }
}

impl IdxSettings {
    /// Fetches the files that are missing, both compressed and plain.
    fn fetch(&self, files: &[(&'static str, Remote)], context: &OpenContext) -> Result<(), DataError> {
        for (name, remote) in files {
            let path = self.path.join(name);
            if !path.exists() && !path.with_extension("").exists() {
                download(remote, &path, &|event| context.tell(event))?;
            }
        }
        Ok(())
    }
}

/// The file in `folder` with one of the names in use for `stems`.
pub(crate) fn find(
    folder: &Path,
    stems: &[&'static str],
    kind: &'static str,
    can_be_fetched: bool,
) -> Result<PathBuf, DataError> {
    let kinds: &[&str] = if kind == "idx3" { &["idx3", "idx4"] } else { &[kind] };
    for stem in stems {
        for kind in kinds {
            for name in [format!("{stem}-{kind}-ubyte"), format!("{stem}.{kind}-ubyte")] {
                let spellings = [folder.join(&name), folder.join(format!("{name}.gz"))];
                if let Some(path) = spellings.into_iter().find(|path| path.exists()) {
                    return Ok(path);
                }
            }
        }
    }
    let expected = format!("{}-{kind}-ubyte", stems[0]);
    Err(DataError::NoFile { folder: folder.to_owned(), expected, can_be_fetched })
}

/// The files of one part and their content.
struct IdxPart {
    images_file: PathBuf,
    labels_file: PathBuf,
    shape: ImageShape,
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl IdxPart {
    fn read(images_file: PathBuf, labels_file: PathBuf, settings: &IdxSettings) -> Result<Self, DataError> {
        let limit = settings.max_file_bytes;
        let images = read_file(&images_file, limit, |input| Idx::read(input, Content::IMAGES))?;
        let labels = read_file(&labels_file, limit, |input| Idx::read(input, Content::LABELS))?.values;
        if labels.len() != images.dims[0] {
            let (images_file, images) = (file_name(&images_file), images.dims[0]);
            let problem = FormatProblem::Count { labels: labels.len(), images, images_file };
            return Err(at_size(&labels_file, problem));
        }
        if images.dims.len() == 3 {
            let because = format!("the images of `{}` have three dimensions", file_name(&images_file));
            settings.section.has_no_effect("channel_order", because);
        }
        let (shape, pixels) = planar(images, settings.layout);
        if shape.channels != settings.channels {
            let problem = FormatProblem::Channels { found: shape.channels, expected: settings.channels };
            return Err(at_size(&images_file, problem));
        }
        Ok(Self { images_file, labels_file, shape, pixels, labels })
    }

    /// The number of classes that the largest label implies.
    fn classes(&self, first_label: usize) -> usize {
        let largest = self.labels.iter().max().copied().unwrap_or(0);
        (usize::from(largest) + 1).saturating_sub(first_label).max(1)
    }

    fn labelled(
        self,
        settings: &IdxSettings,
        classes: usize,
        expected: Option<ImageShape>,
    ) -> Result<ImagePart, DataError> {
        /// Labels follow the type and one dimension.
        const LABELS_HEADER: usize = 8;
        if let Some(expected) = expected.filter(|expected| *expected != self.shape) {
            let in_words = |shape: ImageShape| format!("{}×{}×{}", shape.channels, shape.height, shape.width);
            let (found, expected) = (in_words(self.shape), in_words(expected));
            return Err(at_size(&self.images_file, FormatProblem::OtherSize { found, expected }));
        }
        let block = PixelBlock {
            file: file_name(&self.images_file),
            bytes: self.pixels,
            first: 0,
            stride: self.shape.elements(),
            count: self.labels.len(),
        };
        let file = file_name(&self.labels_file);
        let labels = Labels { file: &file, first_byte: LABELS_HEADER, stride: 1, labels: self.labels };
        let rule = LabelRule { first: settings.first_label, classes, on_corrupt: settings.on_corrupt };
        let mut part = ImagePart::default();
        let pushed = part.push_labelled(block, labels, rule);
        pushed.map_err(|flaw| DataError::Format(flaw.in_file(&self.labels_file)))?;
        Ok(part)
    }
}

/// A problem with the sizes in the header, which follow the first four bytes.
fn at_size(path: &Path, problem: FormatProblem) -> DataError {
    DataError::Format(Flaw::new(4u64, problem).in_file(path))
}

#[cfg(test)]
mod tests {
    use oomph_config::Section;

    use super::*;
    use crate::server::{Answer, Server};

    #[test]
    fn a_file_is_fetched_if_it_is_missing_compressed_and_plain() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let server = Server::start(b"labels".to_vec(), &[Answer::Whole]);
        let files = ["a.gz", "b.gz", "c.gz"].map(|name| (name, server.remote(b"labels")));
        std::fs::write(place.path().join("b"), b"unpacked").expect("a file");
        std::fs::write(place.path().join("c.gz"), b"packed").expect("a file");
        let text = format!("path = '{}'", place.path().display());
        let settings = IdxSettings::read(&Section::from_toml("data", &text).expect("valid TOML"));
        settings.expect("valid").fetch(&files, &OpenContext::new("unused", 0)).expect("fetched");
        assert_eq!(std::fs::read(place.path().join("a.gz")).expect("fetched"), b"labels");
        assert_eq!(server.requests(), [0]);
    }

    #[test]
    fn every_known_file_is_found_under_its_name() {
        for known in [&known::MNIST, &known::FASHION_MNIST] {
            let place = tempfile::tempdir().expect("a temporary directory");
            for (name, remote) in known.files() {
                assert!(remote.url.starts_with("https://") && remote.url.ends_with(name));
                assert_eq!(remote.sha256.len(), 64);
                std::fs::write(place.path().join(name), b"").expect("a file");
            }
            for stem in ["train-images", "t10k-images"] {
                assert!(find(place.path(), &[stem], "idx3", true).is_ok());
            }
            for stem in ["train-labels", "t10k-labels"] {
                assert!(find(place.path(), &[stem], "idx1", true).is_ok());
            }
        }
    }
}
