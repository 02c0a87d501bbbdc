//! CIFAR-10's binary files and IDX files, whole and broken.

mod support;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use flate2::{Compression, write::GzEncoder};
use image::{Rgb, RgbImage};
use oomph_config::Section;
use oomph_core::{Split, TargetSpec};
use oomph_data::{DataError, OnCorrupt, OpenContext, OpenEvent, OpenSource, Source, cifar10, idx};
use support::{Photos, epoch, options, photo, png};

/// Both formats, written without Python.
struct Files(tempfile::TempDir);

/// Ten classes with this number of photos each.
fn photos(split: Split, each: usize) -> Vec<(u8, RgbImage)> {
    let start = if split == Split::Train { 0 } else { 500 };
    (0..10 * each).map(|index| ((index / each) as u8, photo((start + index) as u64, 32, 32))).collect()
}

fn planes(image: &RgbImage) -> Vec<u8> {
    (0..3).flat_map(|channel| image.pixels().map(move |&Rgb(pixel)| pixel[channel])).collect()
}

fn cifar_bytes(photos: &[(u8, RgbImage)]) -> Vec<u8> {
    photos.iter().flat_map(|(label, image)| [vec![*label], planes(image)].concat()).collect()
}

fn idx_bytes(dims: &[usize], values: Vec<u8>) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dims.len() as u8];
    bytes.extend(dims.iter().flat_map(|&dim| (dim as u32).to_be_bytes()));
    bytes.extend(values);
    bytes
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("written to memory");
    encoder.finish().expect("written to memory")
}

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    /// Two photos of each class to train on and one held out, in CIFAR-10's format.
    fn cifar10() -> Self {
        let files = Self::new();
        for (number, batch) in photos(Split::Train, 2).chunks(4).enumerate() {
            files.write(&format!("data_batch_{}.bin", number + 1), &cifar_bytes(batch));
        }
        files.write("test_batch.bin", &cifar_bytes(&photos(Split::Test, 1)));
        files
    }

    /// The same photos in IDX files, one of them compressed.
    fn idx() -> Self {
        let files = Self::new();
        for (split, each, begin) in [(Split::Train, 2, "train"), (Split::Test, 1, "t10k")] {
            let photos = photos(split, each);
            let pixels = photos.iter().flat_map(|(_, image)| image.as_raw().clone()).collect();
            let images = idx_bytes(&[photos.len(), 32, 32, 3], pixels);
            files.write(&format!("{begin}-images-idx4-ubyte.gz"), &packed(&images));
            let labels = photos.iter().map(|(label, _)| *label).collect();
            files.write(&format!("{begin}-labels.idx1-ubyte"), &idx_bytes(&[photos.len()], labels));
        }
        files
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.at(name), bytes).expect("a file");
    }

    fn open_cifar10(&self, text: &str) -> Result<Arc<dyn Source>, DataError> {
        open(cifar10, self.path(), text)
    }

    fn open_idx(&self, text: &str) -> Result<Arc<dyn Source>, DataError> {
        open(idx, self.path(), text)
    }
}

type Reader = fn(&Section) -> Result<Box<dyn OpenSource + Send + Sync>, oomph_config::ConfigError>;

fn open(read: Reader, path: &Path, text: &str) -> Result<Arc<dyn Source>, DataError> {
    let section = Section::from_toml("data", &format!("path = '{}'\n{text}", path.display()));
    let settings = read(&section.expect("valid TOML")).expect("valid settings");
    settings.open(&OpenContext::new("unused", 0))
}

/// The message without the folder's path.
fn says(files: &Files, result: Result<Arc<dyn Source>, DataError>) -> String {
    let error = result.err().expect("it is broken");
    error.to_string().replace(&format!("{}/", files.path().display()), "")
}

/// The same photos as lossless files in class folders.
fn folder() -> (Photos, Arc<dyn Source>) {
    let folder = Photos::nothing();
    for (split, each) in [(Split::Train, 2), (Split::Test, 1)] {
        for (index, (label, image)) in photos(split, each).into_iter().enumerate() {
            folder.write(&format!("{split}/class-{label}/{index:03}.png"), &png(image));
        }
    }
    let source = folder.open(AUGMENTED).expect("whole photos");
    (folder, source)
}

const AUGMENTED: &str = "crop_padding = 4\nflip = true\n\
    augment = { rotate = 20, brightness = 0.4, hue = 0.1, rand_augment = 2, erase = 0.5 }";

#[test]
fn samples_are_those_of_a_folder_with_the_same_pixels() {
    let (_folder, folder) = folder();
    let (cifar, idx) = (Files::cifar10(), Files::idx());
    let cifar = cifar.open_cifar10(AUGMENTED).expect("whole files");
    let idx = idx.open_idx(&format!("{AUGMENTED}\nchannels = 3")).expect("whole files");
    for source in [&cifar, &idx] {
        assert_eq!(source.spec(), folder.spec());
        // Predictions read image files the same way.
        assert_eq!(source.image_reader(), folder.image_reader());
        for split in [Split::Train, Split::Test] {
            assert_eq!(source.len(split), folder.len(split));
            for index in 0..folder.len(split) {
                let expected = folder.sample(split, index, None).expect("a whole photo");
                assert_eq!(source.sample(split, index, None).expect("a whole photo"), expected);
            }
        }
        let all = |source: &Arc<dyn Source>| epoch(source, 8, 1, &options(2, OnCorrupt::Fail));
        assert_eq!(all(source).expect("whole photos"), all(&folder).expect("whole photos"));
    }
}

#[test]
fn cifar10_takes_names_and_its_own_folder_where_they_are() {
    let files = Files::cifar10();
    assert_eq!(files.open_cifar10("").expect("whole").class_names(), None);
    files.write("batches.meta.txt", b"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
    let parent = Files::new();
    fs::rename(files.path(), parent.at("cifar-10-batches-bin")).expect("renamed");
    let source = parent.open_cifar10("").expect("whole");
    assert_eq!(source.class_names().expect("named")[9], "j");
    assert_eq!(source.spec().target, TargetSpec::Class { count: 10 });
    assert_eq!(source.sample_name(Split::Train, 5), "image 1 of `data_batch_2.bin`");
    fs::create_dir(files.path()).expect("for the temporary directory to be removed");
}

#[test]
fn a_broken_cifar10_file_is_named_with_its_byte() {
    let files = Files::cifar10();
    let whole = fs::read(files.at("data_batch_3.bin")).expect("written");
    let check = |bytes: &[u8], expected: &str| {
        files.write("data_batch_3.bin", bytes);
        assert_eq!(says(&files, files.open_cifar10("")), expected);
    };
    check(
        &whole[..5000],
        "`data_batch_3.bin`, byte 5000: the file ends here; expected 1146 more bytes of an image",
    );
    check(&[], "`data_batch_3.bin`, byte 0: the file has no images");
    let mut mislabelled = whole.clone();
    mislabelled[2 * 3073] = 77;
    check(
        &mislabelled,
        "`data_batch_3.bin`, byte 6146: label 77 is not among the 10 classes, which are 0 to 9",
    );
    files.write("data_batch_3.bin", &whole);
    files.write("batches.meta.txt", b"cat\ndog\n");
    assert_eq!(
        says(&files, files.open_cifar10("")),
        "`batches.meta.txt`, byte 8: the file has 2 class names; expected 10"
    );
    fs::remove_file(files.at("batches.meta.txt")).expect("written");
    let too_large = says(&files, files.open_cifar10("max_file_bytes = '10KiB'"));
    assert_eq!(
        too_large,
        "`data_batch_1.bin`, byte 0: the size is 12.0 KiB or more, above `data.max_file_bytes` of 10.0 KiB"
    );
    fs::remove_file(files.at("test_batch.bin")).expect("written");
    let error = files.open_cifar10("").err().expect("a file is missing");
    assert!(error.to_string().ends_with("has no file `test_batch.bin`"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("data.download=true")));
}

#[test]
fn what_is_mislabelled_can_be_left_out() {
    let files = Files::cifar10();
    let mut bytes = fs::read(files.at("data_batch_3.bin")).expect("written");
    bytes[3073] = 10;
    files.write("data_batch_3.bin", &bytes);
    let source = files.open_cifar10("on_corrupt = 'skip'").expect("only one is broken");
    let batches = epoch(&source, 20, 0, &options(0, OnCorrupt::Skip)).expect("the others are whole");
    assert_eq!(batches[0].size, 19);
    let skipped: Vec<_> = batches[0].skipped.iter().map(ToString::to_string).collect();
    assert_eq!(
        skipped,
        [
            "`data_batch_3.bin` is unreadable: byte 3073: label 10 is not among the 10 classes, which are 0 to 9"
        ]
    );
}

#[test]
fn idx_files_are_found_by_all_their_names() {
    let files = Files::idx();
    let source = files.open_idx("channels = 3").expect("whole");
    assert_eq!((source.len(Split::Train), source.class_names()), (20, None));
    assert_eq!(source.sample_name(Split::Test, 3), "image 3 of `t10k-images-idx4-ubyte.gz`");
    for (name, renamed) in [("images-idx4-ubyte.gz", "pictures"), ("labels.idx1-ubyte", "classes")] {
        fs::rename(files.at(&format!("t10k-{name}")), files.at(renamed)).expect("renamed");
    }
    assert!(files.open_idx("channels = 3").is_err());
    let named = "channels = 3\ntest_images = 'pictures'\ntest_labels = 'classes'\nname = 'fashion-mnist'";
    let source = files.open_idx(named).expect("named");
    assert_eq!(source.class_names().expect("known")[9], "ankle boot");
}

#[test]
fn letters_count_from_one_and_lie_on_their_side() {
    let files = Files::new();
    for part in ["train", "t10k"] {
        // Images of two rows and three columns, column by column.
        files.write(&format!("{part}-images-idx3-ubyte"), &idx_bytes(&[2, 3, 2], (0..12).collect()));
        files.write(&format!("{part}-labels-idx1-ubyte"), &idx_bytes(&[2], vec![1, 26]));
    }
    let source =
        files.open_idx("first_label = 1\ntranspose = true\nnormalize = 'none'").expect("whole letters");
    assert_eq!(source.spec().target, TargetSpec::Class { count: 26 });
    assert_eq!(source.spec().input.shape(), [1, 2, 3]);
    let sample = source.sample(Split::Train, 1, None).expect("whole");
    let pixels = [6, 8, 10, 7, 9, 11].map(|pixel| (f64::from(pixel) / 255.0) as f32);
    assert_eq!(sample.input, oomph_data::Values::Floats(pixels.to_vec()));
    assert_eq!(sample.target, oomph_data::Target::Class(25));
    assert_eq!(
        says(&files, files.open_idx("classes = 26")),
        "`t10k-labels-idx1-ubyte`, byte 9: label 26 is not among the 26 classes, which are 0 to 25"
    );
}

#[test]
fn idx_files_must_fit_each_other() {
    let files = Files::idx();
    assert_eq!(
        says(&files, files.open_idx("")),
        "`train-images-idx4-ubyte.gz`, byte 4: images have 3 channels; expected 1"
    );
    let labels = fs::read(files.at("t10k-labels.idx1-ubyte")).expect("written");
    files.write("t10k-labels.idx1-ubyte", &idx_bytes(&[9], vec![0; 9]));
    assert_eq!(
        says(&files, files.open_idx("channels = 3")),
        "`t10k-labels.idx1-ubyte`, byte 4: there are 9 labels, but `t10k-images-idx4-ubyte.gz` has 10 images"
    );
    files.write("t10k-labels.idx1-ubyte", &labels);
    files.write("t10k-images-idx4-ubyte.gz", &idx_bytes(&[10, 16, 16, 3], vec![0; 10 * 768]));
    assert_eq!(
        says(&files, files.open_idx("channels = 3")),
        "`t10k-images-idx4-ubyte.gz`, byte 4: images are 3×16×16, but the training images are 3×32×32"
    );
    files.write("t10k-images-idx4-ubyte.gz", &labels);
    assert!(says(&files, files.open_idx("channels = 3")).contains("byte 0: the file begins with 0x00000801"));
}

#[test]
fn what_is_there_is_not_fetched() {
    fn tell(event: &OpenEvent<'_>) {
        panic!("{event:?}");
    }
    let cifar = Files::cifar10();
    let text = format!("path = '{}'\ndownload = true", cifar.path().display());
    let settings = cifar10(&Section::from_toml("data", &text).expect("valid TOML")).expect("valid settings");
    let context = OpenContext::new("unused", 0).with_observer(Arc::new(tell));
    assert!(settings.open(&context).is_ok());
}
