use oomph_config::{ConfigError, Section};
use oomph_core::printable;

use super::{
    decode::{Decoder, MAX_FILE_BYTES},
    label_settings::LabelSettings,
};
use crate::{
    OnCorrupt, OpenSource,
    place::DataPath,
    transform::{Fit, Resize, TransformSettings},
};

/// Reads the settings of a folder of images.
///
/// The layout is `<path>/train/<class>/*` and `<path>/test/<class>/*`, or `val`, `valid` or `validation` where there is no `test`.
/// Without a held-out part, or with class folders in `<path>` itself, a share of each class is held out. Which files these are
/// depends on their names and on a seed alone, so a new file moves few of the others.
///
/// Files named `.jpg`, `.jpeg`, `.png` and `.webp` count, whichever of the formats they hold. Other files, hidden files and
/// folders within a class are ignored. Classes and files are sorted by name.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `path` | | the folder that holds `train` and `test`, or the class folders; `~` is the home directory |
/// | `labels` | | a CSV file with a row for each image, instead of class folders; its files are relative to `path`, else to its folder |
/// | `file_column`, `label_column` | `file`, `label` | its columns with the file and the class |
/// | `label_separator` | | a text such as `\|` between the labels in `label_column`: an image has any number of them, and none in an empty field |
/// | `label_columns` | | instead: the columns that mark the images with a label by 1, others by 0 or -1; `all` for all but those of the file and the part |
/// | `split_column` | `split`, if it exists | its column with `train`, and `test`, `val`, `valid` or `validation` |
/// | `holdout` | 0.2 | share of each class that is held out, if no part is; of all images where they may have several labels |
/// | `holdout_seed` | 0 | seed of that choice |
/// | `classes` | those of the folder | number of classes; with it and `size`, plans need no data |
/// | `size` | of the first training image | every image is brought to `size` × `size`, or to `[height, width]` |
/// | `fit` | `stretch` | `stretch` resizes both sides; `crop` keeps the ratio, and crops the middle |
/// | `resize` | `bilinear` | or `nearest`. Bilinear averages when it shrinks an image, like Pillow |
/// | `channels` | 3 | 3: RGB, grey images too; 1: grey, by luminance. An alpha channel is dropped |
/// | `cache` | `auto` | `memory` keeps decoded images as bytes, `none` does not, `auto` does for a part of up to 1 GiB. Training images are not kept with `augment.resized_crop`, which crops the whole files |
/// | `max_file_bytes` | `64MiB` | a larger file counts as corrupt |
/// | `normalize`, `mean`, `std` | `auto` | see [`TransformSettings`] |
/// | `crop_padding`, `flip`, `augment` | off | see [`TransformSettings`] |
///
/// With `normalize = "auto"` the mean and standard deviation of each channel are computed once, over all training
/// images or 50,000 evenly spread ones, and kept in [`OpenContext::cache_dir`](crate::OpenContext::cache_dir) until
/// the list of files (names, sizes, times) or the size of the images changes.
///
/// A file that cannot be decoded is corrupt. So is a truncated file, one with a side of more than 16,384 pixels, and one
/// that takes more than 256 MiB to decode. The orientation in EXIF is not applied.
///
/// # Errors
/// A value of the wrong type or out of its range. [`open`](crate::OpenSource::open) checks the files.
pub fn folder(section: &Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> {
    let path = DataPath::read(section, "the folder of the images")?;
    let labels = LabelSettings::read(section)?;
    let channels = section.integer("channels", 3, 1..=3)?;
    if channels == 2 {
        return Err(section.invalid("channels", "3 (RGB) or 1 (grey)"));
    }
    Ok(Box::new(FolderSettings {
        path,
        labels,
        classes: section.optional_integer("classes", 1..=65_536)?,
        holdout: Holdout::read(section)?,
        size: read_size(section)?,
        decoder: Decoder {
            resize: section.choice(
                "resize",
                "bilinear",
                &[("bilinear", Resize::Bilinear), ("nearest", Resize::Nearest)],
            )?,
            fit: section.choice("fit", "stretch", &[("stretch", Fit::Stretch), ("crop", Fit::Crop)])?,
            max_file_bytes: section.bytes("max_file_bytes")?.unwrap_or(MAX_FILE_BYTES),
        },
        channels,
        cache: section.choice(
            "cache",
            "auto",
            &[("auto", None), ("memory", Some(true)), ("none", Some(false))],
        )?,
        transform: TransformSettings::read(section, channels)?,
        on_corrupt: OnCorrupt::read(section)?,
    }))
}

/// The settings that [`folder`] reads.
pub(super) struct FolderSettings {
    pub(super) path: DataPath,
    /// The table that names the classes; `None` where folders do.
    pub(super) labels: Option<LabelSettings>,
    /// The number of classes, for plans without the data.
    pub(super) classes: Option<usize>,
    pub(super) holdout: Holdout,
    /// Height and width; `None` for those of the first training image.
    pub(super) size: Option<(usize, usize)>,
    pub(super) decoder: Decoder,
    pub(super) channels: usize,
    /// Whether decoded images are kept in memory; `None` decides by their size.
    pub(super) cache: Option<bool>,
    pub(super) transform: TransformSettings,
    pub(super) on_corrupt: OnCorrupt,
}

impl FolderSettings {
    /// As `cache`, of the training images: a random resized crop needs whole images, and only the file has them.
    pub(super) fn cache_of_training(&self) -> Option<bool> {
        match self.transform.augment.resized_crop {
            Some(_) => Some(false),
            None => self.cache,
        }
    }
}

/// How a folder without a held-out part is split.
pub(super) struct Holdout {
    /// The share of each class that is held out, above 0 and below 1.
    pub(super) share: f64,
    pub(super) seed: u64,
    /// For the note that the keys have no effect.
    section: Section,
}

impl Holdout {
    fn read(section: &Section) -> Result<Self, ConfigError> {
        let share = section.number("holdout", 0.2, 0.0..1.0)?;
        if share == 0.0 {
            return Err(section.invalid("holdout", "a share above 0 and below 1, such as 0.2"));
        }
        Ok(Self { share, seed: section.unsigned("holdout_seed", 0)?, section: section.clone() })
    }

    /// How the held-out part of `what` is chosen, for people.
    pub(super) fn origin(&self, what: &str) -> String {
        let Self { share, seed, .. } = self;
        let percent = (share * 1e4).round() / 1e2;
        format!("{percent} % of {what} (`data.holdout`), chosen by `data.holdout_seed` (= {seed})")
    }

    /// Notes that the data has a held-out part of its own, called `part`.
    pub(super) fn note_unused(&self, part: &str) {
        let because = || format!("{} is held out", printable(part));
        self.section.has_no_effect("holdout", because());
        self.section.has_no_effect("holdout_seed", because());
    }
}

/// `size` is an integer or a list of two.
fn read_size(section: &Section) -> Result<Option<(usize, usize)>, ConfigError> {
    const SIDES: std::ops::RangeInclusive<usize> = 1..=8192;
    if let Ok(side) = section.optional_integer("size", SIDES) {
        return Ok(side.map(|side| (side, side)));
    }
    match section.integers("size", &[]).as_deref() {
        Ok([height, width]) if SIDES.contains(height) && SIDES.contains(width) => Ok(Some((*height, *width))),
        _ => Err(section.invalid("size", "an integer or `[height, width]`, each from 1 to 8192")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> Section {
        Section::from_toml("data", text).expect("valid TOML")
    }

    #[test]
    fn a_size_is_one_side_or_two() {
        let read = |text| read_size(&section(text)).ok();
        assert_eq!(read(""), Some(None));
        assert_eq!(read("size = 32"), Some(Some((32, 32))));
        assert_eq!(read("size = [24, 32]"), Some(Some((24, 32))));
        for text in ["size = 0", "size = [1]", "size = [0, 1]", "size = \"32\"", "size = 10000", "size = 1.5"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn settings_are_checked_without_the_data() {
        assert!(folder(&section("path = \"nowhere\"")).is_ok());
        assert!(folder(&section("size = 224\nclasses = 1000")).is_ok(), "enough to plan");
        for text in [
            "classes = 0",
            "path = 1",
            "path = \"x\"\nchannels = 2",
            "path = \"x\"\nresize = \"cubic\"",
            "path = \"x\"\nfit = \"pad\"",
            "path = \"x\"\ncache = true",
            "path = \"x\"\nmax_file_bytes = \"much\"",
            "path = \"x\"\nmean = [0.5]\nstd = [0.5]",
        ] {
            assert!(folder(&section(text)).is_err(), "{text}");
        }
    }
}
