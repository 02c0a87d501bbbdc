//! A folder of tiny photos.

use std::io::Cursor;

use image::{DynamicImage, ImageFormat, Rgb, RgbImage};

use crate::support::Folder;

/// A config that trains on `photos/`.
pub(crate) const CONFIG: &str = "\
[model]
name = 'lstm'
hidden = 4

[data]
source = 'folder'
path = 'photos'
workers = 0

[train]
steps = 3
batch = 2

[run]
directory = 'run'
log_every = 1
";

/// The bytes of a JPEG of 8 × 8.
pub(crate) fn jpeg(seed: u8) -> Vec<u8> {
    let pixel = |x: u32, y: u32| Rgb([seed.wrapping_mul(31), (x * 30) as u8, (y * 30) as u8]);
    let mut bytes = Cursor::new(Vec::new());
    let image = DynamicImage::from(RgbImage::from_fn(8, 8, pixel));
    image.write_to(&mut bytes, ImageFormat::Jpeg).expect("written to memory");
    bytes.into_inner()
}

/// Two classes with three training photos and one test photo each, and a config for them.
pub(crate) fn cats_and_dogs(folder: &Folder) {
    folder.write("photos.toml", CONFIG);
    for (seed, path) in [
        "train/cat/1",
        "train/cat/2",
        "train/cat/3",
        "train/dog/1",
        "train/dog/2",
        "train/dog/3",
        "test/cat/4",
        "test/dog/4",
    ]
    .iter()
    .enumerate()
    {
        folder.write(&format!("photos/{path}.jpg"), jpeg(seed as u8));
    }
}

/// The same with one truncated training photo.
pub(crate) fn truncated(folder: &Folder) {
    cats_and_dogs(folder);
    let whole = jpeg(1);
    folder.write("photos/train/cat/2.jpg", &whole[..whole.len() / 2]);
}
