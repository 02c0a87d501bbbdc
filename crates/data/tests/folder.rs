//! Folders of images, whole and broken.

mod support;

use std::{fs, sync::Arc};

use image::{GrayImage, Luma, Rgb, RgbImage, Rgba, RgbaImage};
use oomph_config::Section;
use oomph_core::{Key, Split, TargetSpec};
use oomph_data::{
    DataError, ImageFiles, LastBatch, Loader, LoaderOptions, OnCorrupt, Sample, SampleOrder, Source,
    SourceRecord, Target, Values, image_files,
};
use support::{Photos, epoch, jpeg, open_folder, options, photo, png, real_photos};

/// Without normalisation: pixels in [0, 1].
const RAW: &str = "normalize = 'none'";

fn sample(source: &dyn Source, split: Split, index: usize) -> (Vec<f32>, usize) {
    match source.sample(split, index, None).expect("a whole image") {
        Sample { input: Values::Floats(values), target: Target::Class(class) } => (values, class),
        other => panic!("{other:?}"),
    }
}

#[test]
fn classes_and_files_are_those_on_disk_in_order_of_name() {
    let photos = Photos::cats_and_dogs();
    let source = photos.open("").expect("a whole folder");
    assert_eq!(source.class_names(), Some(&["cat".to_owned(), "dog".to_owned()][..]));
    assert_eq!(source.spec().target, TargetSpec::Class { count: 2 });
    assert_eq!(source.spec().input.shape(), [3, 16, 20]);
    assert_eq!((source.len(Split::Train), source.len(Split::Test)), (6, 4));
    assert_eq!(source.sample_name(Split::Test, 3), "`test/dog/1.jpg`");
    let classes: Vec<_> = (0..6).map(|index| sample(&*source, Split::Train, index).1).collect();
    assert_eq!(classes, [0, 0, 0, 1, 1, 1]);
}

#[test]
fn val_stands_in_for_test() {
    for part in ["val", "valid", "validation"] {
        let photos = Photos::cats_and_dogs();
        fs::rename(photos.root().join("test"), photos.root().join(part)).expect("renamed");
        let source = photos.open("").expect("a whole folder");
        assert_eq!(source.sample_name(Split::Test, 0), format!("`{part}/cat/0.jpg`"));
    }
}

/// The names of both parts.
fn names(source: &dyn Source) -> [Vec<String>; 2] {
    [Split::Train, Split::Test]
        .map(|split| (0..source.len(split)).map(|index| source.sample_name(split, index)).collect())
}

#[test]
fn a_folder_of_classes_is_split_by_the_names_of_its_files() {
    let photos = Photos::cats_and_dogs();
    // Eight cats, three dogs, and no parts.
    for index in 3..8 {
        photos.write(&format!("train/cat/{index}.jpg"), &jpeg(index, 20, 16));
    }
    fs::remove_dir_all(photos.root().join("test")).expect("removed");
    let of_train = names(&*photos.open("holdout = 0.25").expect("a folder"));
    for class in ["cat", "dog"] {
        fs::rename(photos.root().join("train").join(class), photos.root().join(class)).expect("renamed");
    }
    fs::remove_dir(photos.root().join("train")).expect("removed");
    let [train, test] = names(&*photos.open("holdout = 0.25").expect("a folder"));
    let count = |part: &[String], class: &str| part.iter().filter(|name| name.contains(class)).count();
    assert_eq!([count(&train, "/cat/"), count(&test, "/cat/")], [6, 2]);
    assert_eq!([count(&train, "/dog/"), count(&test, "/dog/")], [2, 1]);
    assert!(train.iter().all(|name| !test.contains(name)) && train.is_sorted());
    // The same files, whether their classes are in `train` or in the folder itself.
    let ends = |names: &[String]| -> Vec<String> {
        names.iter().map(|name| name.rsplitn(3, '/').take(2).collect::<Vec<_>>().join("/")).collect()
    };
    assert_eq!([ends(&train), ends(&test)], [ends(&of_train[0]), ends(&of_train[1])]);
    // Another seed holds other files out; more files move few of the held-out ones.
    let seeds: Vec<_> = (0..8).map(|seed| format!("holdout = 0.25\nholdout_seed = {seed}")).collect();
    assert!(seeds.iter().any(|seed| names(&*photos.open(seed).expect("a folder"))[1] != test));
    for index in 20..24 {
        photos.write(&format!("cat/{index}.jpg"), &jpeg(index, 20, 16));
    }
    let more = names(&*photos.open("holdout = 0.25").expect("a folder"));
    assert_eq!(count(&more[1], "/cat/"), 3);
    let moved = test.iter().filter(|name| !more[1].contains(name)).count();
    assert!(moved <= 1, "{test:?} became {:?}", more[1]);
}

#[test]
fn a_class_of_one_image_cannot_be_split() {
    let photos = Photos::cats_and_dogs();
    fs::remove_dir_all(photos.root().join("test")).expect("removed");
    for name in ["1.jpg", "2.jpg"] {
        fs::remove_file(photos.root().join("train/dog").join(name)).expect("removed");
    }
    let error = photos.open("").err().expect("an error").to_string();
    assert!(
        error.ends_with("train/dog` has a single image, which cannot be both trained on and held out"),
        "{error}"
    );
}

#[test]
fn webp_is_read_too() {
    let photos = Photos::cats_and_dogs();
    let image = photo(3, 20, 16);
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, image::ImageFormat::WebP).expect("written to memory");
    photos.write("train/cat/0.webp", &bytes.into_inner());
    photos.write("train/cat/0.png", &png(image));
    let source = photos.open(RAW).expect("a whole folder");
    let of = |wanted: &str| {
        (0..source.len(Split::Train)).find(|index| source.sample_name(Split::Train, *index).contains(wanted))
    };
    let values = |wanted| sample(&*source, Split::Train, of(wanted).expect("a file")).0;
    assert_eq!(values("0.webp"), values("0.png"), "lossless");
}

#[test]
fn a_plan_needs_no_photos() {
    let section = Section::from_toml("data", "size = [24, 32]\nclasses = 7\nchannels = 1").expect("TOML");
    let settings = oomph_data::folder(&section).expect("settings");
    let absent = settings.open(&oomph_data::OpenContext::new("unused", 0)).err().expect("no path");
    assert!(absent.is_absent(), "{absent}");
    assert_eq!(absent.to_string(), "`data.path` is missing; expected the folder of the images");
    let source = settings.declared().expect("enough to plan");
    assert_eq!((source.spec().input.shape(), source.spec().target.outputs()), (vec![1, 24, 32], 7));
    assert!(source.is_declared() && source.sample(Split::Train, 0, None).is_err());
    let photos = Photos::cats_and_dogs();
    let error = photos.open("classes = 7").err().expect("an error");
    assert!(
        !error.is_absent() && error.to_string().ends_with("has 2 classes, and `data.classes` is 7"),
        "{error}"
    );
}

#[test]
fn what_is_not_an_image_is_passed_over() {
    let photos = Photos::cats_and_dogs();
    for name in [".hidden.jpg", "notes.txt", "Thumbs.db", "deeper/4.jpg"] {
        photos.write(&format!("train/cat/{name}"), b"not an image");
    }
    photos.write("train/README", b"not a class");
    photos.write("train/.cache/0.jpg", b"not a class");
    photos.write("train/cat/UPPER.JPEG", &jpeg(7, 20, 16));
    let source = photos.open("").expect("a whole folder");
    assert_eq!(source.len(Split::Train), 7);
}

#[test]
fn pixels_come_channel_by_channel() {
    let photos = Photos::cats_and_dogs();
    let image = photo(3, 20, 16);
    photos.write("train/cat/0.png", &png(image.clone()));
    let source = photos.open(RAW).expect("a whole folder");
    let values = sample(&*source, Split::Train, 1).0;
    for (x, y, pixel) in image.enumerate_pixels() {
        for channel in 0..3 {
            let at = (channel * 16 + y as usize) * 20 + x as usize;
            assert_eq!(values[at], f32::from(pixel[channel]) / 255.0);
        }
    }
}

#[test]
fn every_kind_of_pixel_becomes_rgb_or_grey() {
    let photos = Photos::cats_and_dogs();
    photos.write("train/cat/0.jpg", &png(RgbImage::from_pixel(4, 4, Rgb([255, 0, 0]))));
    photos.write("train/cat/1.jpg", &png(RgbaImage::from_pixel(4, 4, Rgba([255, 0, 0, 9]))));
    photos.write("train/cat/2.jpg", &png(GrayImage::from_pixel(4, 4, Luma([51]))));
    let wide = image::ImageBuffer::from_pixel(4, 4, Rgb([65535u16, 0, 0]));
    photos.write("train/dog/0.jpg", &png(wide));
    let rgb = photos.open(&format!("{RAW}\nsize = 1")).expect("a whole folder");
    let of = |index| sample(&*rgb, Split::Train, index).0;
    assert_eq!([of(0), of(1), of(2), of(3)], [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.2; 3], [1.0, 0.0, 0.0]]);
    let grey = photos.open(&format!("{RAW}\nsize = 1\nchannels = 1")).expect("a whole folder");
    let of = |index| sample(&*grey, Split::Train, index).0;
    assert_eq!(of(2), [0.2]);
    assert!((of(0)[0] - 0.2126).abs() < 0.01, "{:?}", of(0));
}

#[test]
fn images_are_stretched_to_the_size_asked_for() {
    let photos = Photos::cats_and_dogs();
    let left_white = RgbImage::from_fn(4, 2, |x, _| Rgb([if x < 2 { 255 } else { 0 }; 3]));
    photos.write("train/cat/0.jpg", &png(left_white));
    for resize in ["bilinear", "nearest"] {
        let text = format!("{RAW}\nsize = [3, 2]\nresize = '{resize}'\nchannels = 1");
        let source = photos.open(&text).expect("a whole folder");
        assert_eq!(source.spec().input.shape(), [1, 3, 2]);
        let values = sample(&*source, Split::Train, 0).0;
        for row in values.chunks(2) {
            assert!(row[0] > 0.8 && row[1] < 0.2, "{resize}: {values:?}");
        }
    }
}

/// The values of training sample 0, augmented.
fn augmented(source: &dyn Source) -> Values {
    source.sample(Split::Train, 0, Some(Key::new(1))).expect("a whole photo").input
}

#[test]
fn a_random_crop_is_of_the_whole_photo_and_not_of_the_resized_one() {
    let photos = Photos::nothing();
    for split in ["train", "test"] {
        // Columns of black and white: resized to four pixels they are grey.
        let stripes = RgbImage::from_fn(64, 32, |x, _| image::Rgb([(x % 2 * 255) as u8; 3]));
        photos.write(&format!("{split}/stripes/1.png"), &png(stripes));
    }
    let open = |augment: &str| {
        photos.open(&format!("normalize = 'none'\nsize = 4\naugment = {{ {augment} }}")).expect("a photo")
    };
    // The one window with all of the area and a ratio of 64 to 32 is the photo.
    let whole = open("resized_crop = [1.0, 1.0], resized_crop_ratio = [2.0, 2.0]");
    let plain = whole.sample(Split::Train, 0, None).expect("a photo").input;
    assert_eq!(augmented(&*whole), plain);
    let Values::Floats(values) = &plain else { panic!("an image") };
    assert!(values.iter().all(|value| (value - 0.5).abs() < 0.01), "{values:?}");
    // A window of 4 × 4 pixels of the photo needs no resizing, so black and white stay.
    let small = open("resized_crop = [0.0078125, 0.0078125], resized_crop_ratio = [1.0, 1.0]");
    let Values::Floats(values) = augmented(&*small) else { panic!("an image") };
    assert!(values.iter().all(|value| *value == 0.0 || *value == 1.0), "{values:?}");
}

#[test]
fn a_photo_keeps_its_ratio_if_it_is_cropped() {
    let photos = Photos::nothing();
    for split in ["train", "test"] {
        // Red, green and blue thirds of equal width.
        let thirds = RgbImage::from_fn(90, 30, |x, _| {
            let mut pixel = [0; 3];
            pixel[x as usize / 30] = 255;
            image::Rgb(pixel)
        });
        photos.write(&format!("{split}/thirds/1.png"), &png(thirds));
    }
    let values = |fit: &str| {
        let source = photos.open(&format!("normalize = 'none'\nsize = 10\nfit = '{fit}'")).expect("a photo");
        sample(&*source, Split::Train, 0).0
    };
    // The middle is green; at its edges one pixel takes in some of the next colour.
    let cropped = values("crop");
    assert!((1..9).all(|x| cropped[100 + x] == 1.0 && cropped[x] == 0.0 && cropped[200 + x] == 0.0));
    let stretched = values("stretch");
    assert!(stretched[0] == 1.0 && stretched[105] == 1.0 && stretched[209] == 1.0);
}

#[test]
fn a_cache_changes_nothing_but_memory() {
    let photos = Photos::cats_and_dogs();
    let [kept, read_anew] = ["memory", "none"].map(|cache| {
        photos.open(&format!("cache = '{cache}'\ncrop_padding = 2\nflip = true")).expect("a whole folder")
    });
    let before = read_anew.host_bytes();
    for turn in 0..2 {
        let options = options(2, OnCorrupt::Fail);
        assert_eq!(
            epoch(&kept, 4, turn, &options).expect("whole images"),
            epoch(&read_anew, 4, turn, &options).expect("whole images")
        );
    }
    assert_eq!(read_anew.host_bytes(), before);
    // Six training images of 3 × 16 × 20 bytes.
    assert!(kept.host_bytes().get() >= before.get() + 6 * 960);
}

/// A PNG header for `side` × `side` pixels, with almost no data behind it.
fn bomb(side: u32) -> Vec<u8> {
    let mut bytes = png(RgbImage::new(1, 1));
    bytes[16..20].copy_from_slice(&side.to_be_bytes());
    bytes[20..24].copy_from_slice(&side.to_be_bytes());
    let checksum = crc32(&bytes[12..29]).to_be_bytes();
    bytes[29..33].copy_from_slice(&checksum);
    bytes
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// Corrupt files, and words of the message for each.
fn corrupt_files() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let whole = jpeg(1, 20, 16);
    let whole_png = png(photo(1, 20, 16));
    vec![
        ("half.jpg", whole[..whole.len() / 2].to_vec(), "truncated"),
        ("end.jpg", whole[..whole.len() - 2].to_vec(), "truncated"),
        ("start.jpg", whole[..3].to_vec(), "truncated"),
        ("half.png", whole_png[..whole_png.len() / 2].to_vec(), ""),
        ("empty.jpg", Vec::new(), "the file is empty"),
        ("text.png", b"this is not an image at all".to_vec(), "neither JPEG nor PNG"),
        ("gif.png", b"GIF89a\x01\0\x01\0\0\0\0;".to_vec(), "neither JPEG nor PNG"),
        ("wide.png", bomb(1 << 20), "longer than 16384 pixels"),
        ("large.png", bomb(16_000), "takes more than 256 MiB"),
        ("bomb.png", bomb(9_000), ""),
        (
            "big.png",
            png(RgbImage::from_fn(300, 300, |x, y| Rgb([(x * y) as u8, x as u8, y as u8]))),
            "max_file_bytes",
        ),
    ]
}

#[test]
fn a_corrupt_file_is_named_with_what_is_wrong() {
    for (name, bytes, reason) in corrupt_files() {
        let photos = Photos::cats_and_dogs();
        photos.write(&format!("train/dog/{name}"), &bytes);
        let settings = format!("{RAW}\nsize = 8\nmax_file_bytes = '2KiB'");
        let source = photos.open(&settings).expect("opening decodes nothing");
        let error = epoch(&source, 3, 0, &options(2, OnCorrupt::Fail)).expect_err(name);
        let text = error.to_string();
        assert!(matches!(error, DataError::Sample(_)), "{name}: {error:?}");
        assert!(
            text.starts_with(&format!("`train/dog/{name}` is unreadable: ")) && text.contains(reason),
            "{text}"
        );

        let batches = epoch(&source, 3, 0, &options(2, OnCorrupt::Skip)).expect("skipped");
        let skipped: Vec<_> = batches.iter().flat_map(|batch| &batch.skipped).collect();
        assert_eq!(skipped.len(), 1);
        assert_eq!(batches.iter().map(|batch| batch.size).sum::<usize>(), 6);
    }
}

#[test]
fn statistics_leave_corrupt_files_out_or_name_the_first() {
    let photos = Photos::cats_and_dogs();
    let clean = photos.open("").expect("a whole folder");
    for (name, bytes, _) in corrupt_files() {
        photos.write(&format!("train/dog/z{name}"), &bytes);
    }
    let settings = "size = [16, 20]\nmax_file_bytes = '2KiB'";
    let error = photos.error(settings);
    assert!(error.to_string().starts_with("`train/dog/zbig.png` is unreadable: "), "{error}");
    let skipping =
        photos.open(&format!("{settings}\non_corrupt = 'skip'")).expect("corrupt files are skipped");
    assert_eq!(sample(&*skipping, Split::Train, 0), sample(&*clean, Split::Train, 0));
}

#[test]
fn the_first_image_that_can_be_decoded_gives_the_size() {
    let photos = Photos::cats_and_dogs();
    photos.write("train/cat/0.jpg", b"");
    assert!(matches!(photos.error(RAW), DataError::Sample(_)));
    let source = photos.open(&format!("{RAW}\non_corrupt = 'skip'")).expect("the next has a size");
    assert_eq!(source.spec().input.shape(), [3, 16, 20]);
}

#[test]
fn a_part_without_one_readable_image_cannot_be_opened() {
    let photos = Photos::nothing();
    for name in ["train/a/0.png", "train/a/1.png", "test/a/0.png"] {
        photos.write(name, b"nothing");
    }
    for size in ["", "size = 4"] {
        let error = photos.error(&format!("on_corrupt = 'skip'\n{size}"));
        assert_eq!(
            error.to_string(),
            "none of the 2 training images can be decoded; \
             the first error: `train/a/0.png` is unreadable: the content is neither JPEG nor PNG nor WebP"
        );
    }
}

#[test]
fn folders_that_are_not_laid_out_as_expected_are_refused() {
    let photos = Photos::nothing();
    let root = photos.root().display().to_string();
    let check = |expected: String| {
        let error = photos.error("");
        assert_eq!(error.to_string(), expected);
        assert!(error.hint().is_some(), "{expected}");
    };
    check(format!("data folder `{root}` does not exist"));
    photos.write("loose.jpg", b"");
    check(format!("`{root}` has no folder `train`, nor class folders of images"));
    photos.write("train/loose.jpg", b"");
    check(format!("`{root}/train` has no class folders"));
    photos.write("train/cat/notes.txt", b"");
    check(format!(
        "class folder `{root}/train/cat` has no `.jpg`, `.jpeg`, `.png` or `.webp` files (other entries: 1)"
    ));
    photos.write("train/cat/0.jpg", b"");
    photos.write("train/dog/0.jpg", b"");
    check(format!(
        "class folder `{root}/train/cat` has a single image, which cannot be both trained on and held out"
    ));
    photos.write("val/cat/0.jpg", b"");
    photos.write("val/cow/0.jpg", b"");
    check(format!("`{root}/val` does not have the classes of `train`: missing `dog`; extra `cow`"));
    photos.write("test", b"");
    check(format!("`{root}/test` is not a folder"));
}

#[test]
fn a_file_in_place_of_the_folder_is_refused() {
    let photos = Photos::nothing();
    photos.write("file", b"");
    let error = match open_folder(&photos.root().join("file"), &photos.cache_dir(), "") {
        Ok(_) => panic!("a file was opened as a folder"),
        Err(error) => error,
    };
    assert!(error.to_string().ends_with("file` is not a folder"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_never_in_circles() {
    use std::os::unix::fs::symlink;

    let photos = Photos::cats_and_dogs();
    let root = photos.root();
    symlink(root.join("train/cat/0.jpg"), root.join("train/cat/link.jpg")).expect("a link");
    symlink(root.join("train"), root.join("train/cat/up")).expect("a link");
    symlink(root.join("test/dog/circle.jpg"), root.join("test/dog/circle.jpg")).expect("a link");
    symlink("nowhere", root.join("test/dog/dangling.jpg")).expect("a link");
    symlink(root.join("train/cat"), root.join("train/dog/folder.jpg")).expect("a link");
    symlink(root.join("train/dog"), root.join("train/emu")).expect("a link");
    symlink(root.join("test/dog"), root.join("test/emu")).expect("a link");
    let source = photos.open(&format!("{RAW}\non_corrupt = 'skip'")).expect("links are files");
    assert_eq!(source.class_names().map(<[_]>::len), Some(3));
    // Three cats and a link. Three dogs and a link to a folder, and all of them again as emus.
    assert_eq!(source.len(Split::Train), 12);
    let batches = epoch(&source, 4, 0, &options(2, OnCorrupt::Skip)).expect("skipped");
    assert_eq!(batches.iter().map(|batch| batch.skipped.len()).sum::<usize>(), 2);
    assert!(source.sample(Split::Test, 4, None).is_err());
}

fn cached_statistics(photos: &Photos) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(photos.cache_dir()).expect("statistics were written");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn statistics_are_computed_once() {
    let photos = Photos::cats_and_dogs();
    let first = sample(&*photos.open("").expect("a whole folder"), Split::Train, 0);
    let files = cached_statistics(&photos);
    assert_eq!(files.len(), 1);
    // Impossible statistics prove that the file is read.
    let text = fs::read_to_string(&files[0]).expect("a file");
    let mut kept: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    kept["mean"] = serde_json::json!([100.0, 100.0, 100.0]);
    fs::write(&files[0], kept.to_string()).expect("written");
    let again = sample(&*photos.open("").expect("a whole folder"), Split::Train, 0);
    assert!(again.0[0] < first.0[0] - 100.0);
}

#[test]
fn statistics_that_were_kept_badly_are_computed_anew() {
    let photos = Photos::cats_and_dogs();
    let first = sample(&*photos.open("").expect("a whole folder"), Split::Train, 0);
    let file = cached_statistics(&photos).remove(0);
    let text = fs::read_to_string(&file).expect("a file");
    let with = |key: &str, value: serde_json::Value| {
        let mut kept: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        kept[key] = value;
        kept.to_string()
    };
    for bad in [
        String::new(),
        text[..text.len() / 2].to_owned(),
        "[]".to_owned(),
        text.replace("mean", "median"),
        with("mean", serde_json::json!([0.5])),
        with("std", serde_json::json!([1.0, 0.0, 1.0])),
        with("std", serde_json::json!([1.0, -1.0, 1.0])),
        with("fingerprint", serde_json::json!("of other files")),
    ] {
        fs::write(&file, &bad).expect("written");
        assert_eq!(sample(&*photos.open("").expect("a whole folder"), Split::Train, 0), first, "{bad}");
        assert_eq!(fs::read_to_string(&file).expect("a file"), text);
    }
}

#[test]
fn statistics_follow_the_files_and_the_size() {
    let photos = Photos::cats_and_dogs();
    photos.open("").expect("a whole folder");
    photos.open("size = 8").expect("a whole folder");
    assert_eq!(cached_statistics(&photos).len(), 2);
    photos.write("train/cat/new.jpg", &jpeg(77, 20, 16));
    photos.open("").expect("a whole folder");
    assert_eq!(cached_statistics(&photos).len(), 3);
    photos.remove("train/cat/new.jpg");
    photos.open("").expect("a whole folder");
    assert_eq!(cached_statistics(&photos).len(), 3);
}

#[test]
fn statistics_do_without_a_place_to_keep_them() {
    let photos = Photos::cats_and_dogs();
    photos.write("file", b"");
    let nowhere = photos.root().join("file/cache");
    assert!(open_folder(&photos.root(), &nowhere, "").is_ok());
}

#[test]
fn real_photos_are_normalised_and_loaded_alike_by_any_number_of_workers() {
    let Some(path) = real_photos() else { return };
    let cache = tempfile::tempdir().expect("a temporary directory");
    let open = || {
        open_folder(&path, cache.path(), "crop_padding = 4\nflip = true\nsize = 32").expect("a whole folder")
    };
    let source = open();
    assert_eq!((source.len(Split::Train), source.len(Split::Test)), (5000, 1000));
    let expected = epoch(&source, 64, 1, &options(0, OnCorrupt::Fail)).expect("whole images");
    for workers in [1, 4] {
        // Opened again: statistics come from the cache, and nothing is decoded yet.
        assert_eq!(
            epoch(&open(), 64, 1, &options(workers, OnCorrupt::Fail)).expect("whole images"),
            expected
        );
    }
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for index in 0..source.len(Split::Train) {
        for value in sample(&*source, Split::Train, index).0.into_iter().map(f64::from) {
            (sum, squares, count) = (sum + value, squares + value * value, count + 1.0);
        }
    }
    let (mean, variance) = (sum / count, squares / count - (sum / count).powi(2));
    assert!(mean.abs() < 1e-4 && (variance - 1.0).abs() < 1e-4, "mean {mean}, variance {variance}");
}

#[test]
fn settings_and_loader_share_a_section() {
    let photos = Photos::cats_and_dogs();
    let text = format!(
        "path = '{}'\nworkers = 1\non_corrupt = 'skip'\nlast_batch = 'drop'",
        photos.root().display()
    );
    let section = Section::from_toml("data", &text).expect("valid TOML");
    let options = LoaderOptions::read(&section).expect("valid settings");
    let context = oomph_data::OpenContext::new(photos.cache_dir(), 0);
    let source: Arc<dyn Source> =
        oomph_data::folder(&section).expect("valid settings").open(&context).expect("a whole folder");
    let order = SampleOrder::train(source.len(Split::Train), 4, 0, options.last_batch);
    assert_eq!(options.last_batch, LastBatch::Drop);
    assert_eq!(Loader::start(source, Split::Train, order, 0, 0, None, &options).count(), 1);
}

#[test]
fn a_file_is_read_as_the_sample_that_it_is() {
    let photos = Photos::cats_and_dogs();
    for settings in [
        "",
        RAW,
        "channels = 1\nsize = [7, 9]",
        "resize = 'nearest'\nsize = 5",
        "fit = 'crop'\nsize = [12, 9]",
        "crop_padding = 2\nflip = true",
    ] {
        let source = photos.open(settings).expect("a whole folder");
        let record = SourceRecord::of(&*source);
        let text = serde_json::to_string(&record).expect("JSON");
        let record: SourceRecord = serde_json::from_str(&text).expect(&text);
        let files = image_files(&[photos.root().join("test")]).expect("a folder of images");
        let asked = ImageFiles::new(&record, files).expect("images");
        assert_eq!((asked.len(Split::Test), asked.len(Split::Train)), (4, 0));
        assert_eq!((asked.spec(), asked.class_names()), (source.spec(), source.class_names()));
        for index in 0..4 {
            let of_file = asked.sample(Split::Test, index, None).expect("a whole image").input;
            assert_eq!(
                of_file,
                source.sample(Split::Test, index, None).expect("a whole image").input,
                "{settings}"
            );
        }
    }
}

#[test]
fn a_file_larger_than_the_settings_allow_is_not_read() {
    let photos = Photos::cats_and_dogs();
    let record = SourceRecord::of(&*photos.open("max_file_bytes = '20KiB'").expect("a whole folder"));
    photos.write("large.jpg", &[0; 30 << 10]);
    let asked = ImageFiles::new(&record, vec![photos.root().join("large.jpg")]).expect("images");
    let error = asked.sample(Split::Test, 0, None).expect_err("too large").to_string();
    assert!(error.contains("more than `data.max_file_bytes` of 20.0 KiB"), "{error}");
}
