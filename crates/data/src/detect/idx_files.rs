use std::path::Path;

use oomph_core::Bytes;

use super::Detected;
use crate::{
    DataError,
    idx::{Content, Idx, find},
    input::{Input, read_file},
};

/// The most bytes of a file of labels.
const MOST: Bytes = Bytes::mib(1 << 10);

/// IDX files with the names of MNIST's.
pub(super) fn detect(folder: &Path) -> Result<Option<Detected>, DataError> {
    let (Ok(images), Ok(labels)) =
        (find(folder, &["train-images"], "idx3", false), find(folder, &["train-labels"], "idx1", false))
    else {
        return Ok(None);
    };
    let mut found = Detected::at("idx", "IDX files of images", folder);
    let dims = read_file(&images, Bytes::mib(1 << 14), dimensions)?;
    if let [_, first, _, last] = dims[..] {
        let is_last = matches!(last, 1..=4);
        let channels = if is_last { last } else { first };
        found = found.with("channels", channels, "");
        if !is_last {
            found = found.with("channel_order", "first", "the images have their channels before their rows");
        }
    }
    let labels = read_file(&labels, MOST, |input| Idx::read(input, Content::LABELS))?.values;
    if let Some(first @ 1..) = labels.into_iter().min() {
        found = found.with("first_label", usize::from(first), "the lowest label");
    }
    Ok(Some(found))
}

/// The sizes in the header of a file.
fn dimensions(mut input: Input<'_>) -> Result<Vec<usize>, crate::Flaw> {
    const WHAT: &str = "its header";
    let [_, _, _, rank]: [u8; 4] = input.array(WHAT)?;
    (0..rank.min(4)).map(|_| Ok(u32::from_be_bytes(input.array(WHAT)?) as usize)).collect()
}
