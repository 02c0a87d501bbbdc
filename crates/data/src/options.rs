use std::thread;

use oomph_config::{ConfigError, Section};
use oomph_core::Bytes;

use crate::{
    LastBatch, Mix,
    sampling::{ClassMembers, Sampling},
};

/// The treatment of a sample that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCorrupt {
    /// The run ends with an error that names the sample.
    #[default]
    Fail,
    /// The sample is left out and listed in [`Batch::skipped`](crate::Batch::skipped).
    Skip,
}

impl OnCorrupt {
    /// Reads `on_corrupt`.
    pub(crate) fn read(section: &Section) -> Result<Self, ConfigError> {
        section.choice("on_corrupt", "fail", &[("fail", Self::Fail), ("skip", Self::Skip)])
    }
}

/// Reads `max_file_bytes` of a source whose files hold many samples; the default is 4 GiB.
pub(crate) fn max_file_bytes(section: &Section) -> Result<Bytes, ConfigError> {
    Ok(section.bytes("max_file_bytes")?.unwrap_or(Bytes::mib(4 << 10)))
}

/// How batches are loaded. Only `on_corrupt`, `last_batch`, `sampling` and `mix` can change their content.
#[derive(Clone, Debug, PartialEq)]
pub struct LoaderOptions {
    /// Number of loading threads, 0 to 64; with 0 the caller's thread loads.
    pub workers: usize,
    /// The largest number of batches that are being loaded or waiting, at least 1. It bounds the memory.
    pub prefetch: usize,
    /// The treatment of a sample that cannot be read.
    pub on_corrupt: OnCorrupt,
    /// The treatment of a smaller last batch. The loader itself follows its [`SampleOrder`](crate::SampleOrder).
    pub last_batch: LastBatch,
    /// How the training samples of an epoch are chosen. As the settings have it, balanced sampling has no members yet.
    pub sampling: Sampling,
    /// How the samples of training batches are mixed in pairs.
    pub mix: Mix,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self::with_workers(default_workers())
    }
}

impl LoaderOptions {
    /// The defaults for a number of workers: two prefetched batches per worker, at least 2.
    pub fn with_workers(workers: usize) -> Self {
        Self {
            workers,
            prefetch: default_prefetch(workers),
            on_corrupt: OnCorrupt::default(),
            last_batch: LastBatch::default(),
            sampling: Sampling::default(),
            mix: Mix::default(),
        }
    }

    /// Reads `workers`, `prefetch`, `on_corrupt`, `last_batch`, `sampling`, `augment.mixup` and `augment.cutmix` of the section
    /// `[data]`.
    ///
    /// # Errors
    /// A value of the wrong type or out of its range.
    pub fn read(section: &Section) -> Result<Self, ConfigError> {
        let workers = section.integer("workers", default_workers(), 0..=64)?;
        if workers == 0 {
            section.has_no_effect("prefetch", "`data.workers` is `0`, so no batch is loaded ahead");
        }
        Ok(Self {
            workers,
            prefetch: section.integer("prefetch", default_prefetch(workers), 1..=1024)?,
            on_corrupt: OnCorrupt::read(section)?,
            last_batch: section.choice(
                "last_batch",
                "keep",
                &[("keep", LastBatch::Keep), ("drop", LastBatch::Drop)],
            )?,
            sampling: match section.choice(
                "sampling",
                "shuffled",
                &[("shuffled", false), ("balanced", true)],
            )? {
                false => Sampling::Shuffled,
                true => Sampling::Balanced(ClassMembers::default()),
            },
            mix: Mix::read(section)?,
        })
    }
}

/// One per core, at most 4. One thread decodes about 30,000 photos of 32×32 per second, or crops, flips and normalises
/// 400,000 from memory (`examples/throughput.rs` on a 2-core machine). Small images need no more threads; large ones on
/// a fast device do.
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
        let text = "workers = 0\nprefetch = 3\non_corrupt = \"skip\"\nlast_batch = \"drop\"\nsampling = \"balanced\"\n\
                    augment = { mixup = 0.2, cutmix = 1 }";
        let expected = LoaderOptions {
            workers: 0,
            prefetch: 3,
            on_corrupt: OnCorrupt::Skip,
            last_batch: LastBatch::Drop,
            sampling: Sampling::Balanced(ClassMembers::default()),
            mix: Mix { mixup: 0.2, cutmix: 1.0 },
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
        for text in [
            "workers = -1",
            "workers = 65",
            "prefetch = 0",
            "on_corrupt = \"maybe\"",
            "last_batch = 1",
            "augment.mixup = -0.1",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
