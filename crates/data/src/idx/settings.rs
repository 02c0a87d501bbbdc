use std::path::{Component, Path, PathBuf};

use oomph_config::{ConfigError, Section};
use oomph_core::Bytes;

use super::{
    known::{FASHION_MNIST, KnownImages, MNIST},
    pixel_layout::PixelLayout,
};
use crate::{
    OnCorrupt, OpenSource, options::max_file_bytes, place::required_path, transform::TransformSettings,
};

/// Reads the settings of images and labels in IDX files, the format of MNIST, plain or as `.gz`.
///
/// Images are unsigned bytes in three dimensions, or in four with the channels; labels unsigned bytes in one.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `path` | | the folder that holds the files |
/// | `name` | `none` | `mnist` or `fashion-mnist`: the names of the classes, and the files that `download` fetches |
/// | `download` | `false` | fetches the four files of `name` into `path` if they are missing |
/// | `train_images`, `train_labels`, `test_images`, `test_labels` | those of MNIST | names of files in `path` |
/// | `classes` | one more than the largest training label | number of classes |
/// | `first_label` | 0 | the label of the first class; 1 for the letters of EMNIST |
/// | `channels` | 1 | channels of an image; several need four dimensions |
/// | `channel_order` | `last` | with four dimensions: channels `last`, as in numpy images, or `first` |
/// | `transpose` | `false` | columns come before rows in the file, as in EMNIST |
/// | `max_file_bytes` | `4GiB` | a larger file, plain or decompressed, is refused |
/// | `normalize`, `mean`, `std` | `auto` | see [`TransformSettings`] |
/// | `crop_padding`, `flip`, `augment` | off | see [`TransformSettings`] |
///
/// Default names are `train-images-idx3-ubyte`, `train-images.idx3-ubyte` and the same with `.gz`. Those of the held-out
/// part begin with `t10k` or `test`.
///
/// # Errors
/// A value of the wrong type or out of its range. [`open`](crate::OpenSource::open) checks the files.
pub fn idx(section: &Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> {
    Ok(Box::new(IdxSettings::read(section)?))
}

/// The keys that name files.
const FILES: [&str; 4] = ["train_images", "train_labels", "test_images", "test_labels"];

/// The settings that [`idx`] reads.
pub(super) struct IdxSettings {
    pub(super) path: PathBuf,
    pub(super) name: Option<&'static KnownImages>,
    pub(super) download: bool,
    /// The names of files that the user gives: images and labels to train on, images and labels held out.
    pub(super) files: [Option<String>; 4],
    pub(super) classes: Option<usize>,
    pub(super) first_label: usize,
    pub(super) channels: usize,
    pub(super) layout: PixelLayout,
    pub(super) max_file_bytes: Bytes,
    pub(super) transform: TransformSettings,
    pub(super) on_corrupt: OnCorrupt,
    /// The section, for what is known of it once the files are open.
    pub(super) section: Section,
}

impl IdxSettings {
    pub(super) fn read(section: &Section) -> Result<Self, ConfigError> {
        let name = section.choice(
            "name",
            "none",
            &[("none", None), ("mnist", Some(&MNIST)), ("fashion-mnist", Some(&FASHION_MNIST))],
        )?;
        let download = section.boolean("download", false)?;
        let [train_images, train_labels, test_images, test_labels] =
            FILES.map(|key| section.optional_string(key));
        let files = [train_images?, train_labels?, test_images?, test_labels?];
        for (key, file) in FILES.into_iter().zip(&files) {
            let is_within = |file: &String| {
                let mut parts = Path::new(file).components();
                !file.is_empty() && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
            };
            if !file.as_ref().is_none_or(is_within) {
                return Err(section.invalid(key, "the name of a file within `data.path`"));
            }
        }
        if download && name.is_none() {
            return Err(section.invalid("download", "`false`, or `name` to be set to the data to fetch"));
        }
        if download && files.iter().any(Option::is_some) {
            return Err(section.invalid("download", "`false`, since the names of the files are set"));
        }
        let channels = section.integer("channels", 1, 1..=1024)?;
        Ok(Self {
            path: required_path(section, "path", "the folder that holds the IDX files")?,
            name,
            download,
            files,
            classes: section.optional_integer("classes", 1..=256)?,
            first_label: section.integer("first_label", 0, 0..=255)?,
            channels,
            layout: PixelLayout {
                channels_last: section.choice(
                    "channel_order",
                    "last",
                    &[("last", true), ("first", false)],
                )?,
                transpose: section.boolean("transpose", false)?,
            },
            max_file_bytes: max_file_bytes(section)?,
            transform: TransformSettings::read(section, channels)?,
            on_corrupt: OnCorrupt::read(section)?,
            section: section.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_without_the_data() {
        let read = |text: &str| IdxSettings::read(&Section::from_toml("data", text).expect("valid TOML"));
        for text in [
            "path = 'x'",
            "path = 'x'\nname = 'mnist'\ndownload = true",
            "path = 'x'\ntrain_images = 'letters.gz'\nfirst_label = 1\ntranspose = true\nclasses = 26",
        ] {
            assert!(read(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "path = 'x'\nname = 'cifar'",
            "path = 'x'\ndownload = true",
            "path = 'x'\nname = 'mnist'\ndownload = true\ntest_labels = 'y'",
            "path = 'x'\nclasses = 0",
            "path = 'x'\nfirst_label = 256",
            "path = 'x'\nchannel_order = 'middle'",
            "path = 'x'\ntrain_images = '/etc/passwd'",
            "path = 'x'\ntrain_labels = '../labels'",
            "path = 'x'\ntest_images = ''",
            "path = 'x'\ntest_labels = 'a/../../b'",
            "path = 'x'\nmax_file_bytes = 'much'",
            "path = 'x'\nchannels = 3\nmean = [0.5]\nstd = [0.5]",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
