use std::{
    fs,
    io::{self, Write},
    path::Path,
    process,
    sync::atomic::{AtomicU32, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use oomph_core::{files::create_fresh, read_file};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Decoder, folder_images::FolderImages, settings::FolderSettings, statistics};
use crate::{
    DataError, OpenContext,
    transform::{ImageShape, Statistics},
};

/// The version of the computation; it changes with the method.
const VERSION: u32 = 2;

/// Statistics in a file of the cache.
#[derive(Serialize, Deserialize)]
struct CachedStatistics {
    /// The fingerprint of the images.
    fingerprint: String,
    #[serde(flatten)]
    statistics: Statistics,
}

/// The statistics of the images, from the cache if nothing has changed since an earlier run.
///
/// An unreadable or outdated file is replaced. If the file cannot be written, the next run computes again.
pub(super) fn recall_or_compute(
    images: &FolderImages,
    shape: ImageShape,
    settings: &FolderSettings,
    context: &OpenContext,
) -> Result<Statistics, DataError> {
    let fingerprint = fingerprint(images, shape, settings);
    let path = context.cache_dir.join(format!("statistics-{}.json", &fingerprint[..16]));
    if let Some(statistics) = recall(&path, &fingerprint, shape.channels) {
        return Ok(statistics);
    }
    let statistics = statistics::compute(images, settings.on_corrupt)?;
    let kept = CachedStatistics { fingerprint, statistics };
    let _ = keep(&path, &kept);
    Ok(kept.statistics)
}

/// SHA-256 of the list of files (names, sizes, times) and of the settings that affect the pixels.
fn fingerprint(images: &FolderImages, shape: ImageShape, settings: &FolderSettings) -> String {
    let ImageShape { channels, height, width } = shape;
    let limits = (settings.decoder.max_file_bytes.get(), statistics::MOST_IMAGES);
    let Decoder { resize, fit, .. } = settings.decoder;
    let mut hash = Sha256::new();
    hash.update(format!("{VERSION} {channels} {height} {width} {:?} {:?} {limits:?}\n", resize, fit));
    for index in 0..images.part.len() {
        let path = images.part.path(index);
        // A missing file counts as one of size 0 from 1970; decoding it fails later.
        let (size, time) = fs::metadata(&path)
            .map_or((0, UNIX_EPOCH), |metadata| (metadata.len(), metadata.modified().unwrap_or(UNIX_EPOCH)));
        let nanoseconds = nanoseconds_since_1970(time);
        hash.update(format!("{size} {nanoseconds} {}\0", images.part.name(index)));
    }
    format!("{:x}", hash.finalize())
}

fn nanoseconds_since_1970(time: SystemTime) -> i128 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    }
}

fn recall(path: &Path, fingerprint: &str, channels: usize) -> Option<Statistics> {
    decode(&read_file(path).ok()?, fingerprint, channels)
}

/// The statistics in the bytes of a file of the cache, if they are of these images.
pub(crate) fn decode(bytes: &[u8], fingerprint: &str, channels: usize) -> Option<Statistics> {
    let kept: CachedStatistics = serde_json::from_slice(bytes).ok()?;
    let statistics = &kept.statistics;
    let is_valid =
        kept.fingerprint == fingerprint && statistics.mean.len() == channels && statistics.is_of(channels);
    is_valid.then_some(kept.statistics)
}

/// Writes to another name and renames, so that no reader sees an incomplete file.
fn keep(path: &Path, kept: &CachedStatistics) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    static WRITES: AtomicU32 = AtomicU32::new(0);
    let write = WRITES.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_extension(format!("{}-{write}.partial", process::id()));
    let kept = serde_json::to_vec_pretty(kept)?;
    let written = create_fresh(&beside).and_then(|mut file| file.write_all(&kept));
    written.and_then(|()| fs::rename(&beside, path)).inspect_err(|_| drop(fs::remove_file(&beside)))
}
