use std::thread;

use oomph_config::{ConfigError, Section};
use oomph_core::Bytes;

use crate::LastBatch;

/// What becomes of a sample that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCorrupt {
    /// The run ends with an error that names it.
    #[default]
    Fail,
    /// It is left out and listed in [`Batch::skipped`](crate::Batch::skipped).
    Skip,
}

impl OnCorrupt {
    /// Reads `on_corrupt`.
    pub(crate) fn read(section: &Section) -> Result<Self, ConfigError> {
        section.choice("on_corrupt", "fail", &[("fail", Self::Fail), ("skip", Self::Skip)])
    }
}

/// Reads `max_file_bytes` of a source whose files hold many samples: 4 GiB where it is not set.
pub(crate) fn max_file_bytes(section: &Section) -> Result<Bytes, ConfigError> {
    Ok(section.bytes("max_file_bytes")?.unwrap_or(Bytes::mib(4 << 10)))
}

/// How batches are loaded. None of it changes what is in them, save what is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Number of threads that load, 0 to 64; with 0 the caller's thread loads.
    pub workers: usize,
    /// How many batches are at most being loaded or waiting to be taken, from 1 on. It bounds the memory.
    pub prefetch: usize,
    /// What becomes of a sample that cannot be read.
    pub on_corrupt: OnCorrupt,
    /// What becomes of a last batch that is smaller. The loader itself follows its [`Order`](crate::Order).
    pub last_batch: LastBatch,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self::with_workers(default_workers())
    }
}

impl LoaderOptions {
    /// The defaults for a number of workers: two batches prefetched for each, and 2 at least.
    pub fn with_workers(workers: usize) -> Self {
        Self {
            workers,
            prefetch: default_prefetch(workers),
            on_corrupt: OnCorrupt::default(),
            last_batch: LastBatch::default(),
        }
    }

    /// Reads `workers`, `prefetch`, `on_corrupt` and `last_batch` of the section `[data]`.
    ///
    /// # Errors
    /// A value of the wrong type or out of its range.
    pub fn read(section: &Section) -> Result<Self, ConfigError> {
        let workers = section.integer("workers", default_workers(), 0..=64)?;
        Ok(Self {
            workers,
            prefetch: section.integer("prefetch", default_prefetch(workers), 1..=1024)?,
            on_corrupt: OnCorrupt::read(section)?,
            last_batch: section.choice(
                "last_batch",
                "keep",
                &[("keep", LastBatch::Keep), ("drop", LastBatch::Drop)],
            )?,
        })
    }
}

/// One a core, and 4 at most. One thread decodes some 30,000 photos of 32×32 a second, or crops, flips and
/// normalises 400,000 that are in memory (`examples/throughput.rs` on a 2-core machine), so small images need no
/// more; large ones on a fast device do.
fn default_workers() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(4)
}

fn default_prefetch(workers: usize) -> usize {
    (2 * workers).max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LoaderOptions, ConfigError> {
        LoaderOptions::read(&Section::from_toml("data", text)?)
    }

    #[test]
    fn defaults_hold_where_nothing_is_set() {
        assert_eq!(read("").unwrap(), LoaderOptions::default());
    }

    #[test]
    fn every_key_is_read() {
        let text = "workers = 0\nprefetch = 3\non_corrupt = \"skip\"\nlast_batch = \"drop\"";
        let expected = LoaderOptions {
            workers: 0,
            prefetch: 3,
            on_corrupt: OnCorrupt::Skip,
            last_batch: LastBatch::Drop,
        };
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn prefetch_follows_the_workers() {
        assert_eq!(read("workers = 8").unwrap().prefetch, 16);
        assert_eq!(read("workers = 0").unwrap().prefetch, 2);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for text in
            ["workers = -1", "workers = 65", "prefetch = 0", "on_corrupt = \"maybe\"", "last_batch = 1"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
