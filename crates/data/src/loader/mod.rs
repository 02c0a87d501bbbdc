mod assemble;
mod prefetch;

use std::sync::Arc;

use oomph_core::{Key, Split};

use self::{assemble::Assembler, prefetch::Prefetcher};
use crate::{Batch, DataError, LoaderOptions, SampleOrder, Source, sampling::augment_key};

/// The batches of one epoch in order, prefetched by worker threads.
///
/// The content of batches does not depend on the number of workers. Every sample is checked against the specification of
/// the source. After the first error there are no more batches. Dropping a loader stops its workers, and waits until each
/// has finished its current sample.
///
/// ```
/// use oomph_config::Section;
/// use oomph_core::Split;
/// use oomph_data::{LastBatch, Loader, LoaderOptions, OpenContext, SampleOrder};
///
/// let section = Section::from_toml("data", "classes = 3\ntrain_samples = 100")?;
/// let context = OpenContext::new(std::env::temp_dir(), 42);
/// let source = oomph_data::synthetic(&section)?.open(&context)?;
///
/// let order = SampleOrder::train(source.len(Split::Train), 32, 42, LastBatch::Keep);
/// let options = LoaderOptions::default();
/// for epoch in 0..2 {
///     for batch in Loader::start(source.clone(), Split::Train, order.clone(), epoch, 0, Some(42), &options) {
///         let batch = batch?;
///         assert_eq!(batch.shape, [batch.size, 3, 32, 32]);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Loader {
    batches: Prefetcher,
    failed: bool,
}

impl Loader {
    /// Starts to load the batches of `epoch` from `first_batch` on.
    ///
    /// With `augment_seed` samples are augmented by random draws from this seed, the epoch and the index of the sample, and
    /// mixed by draws from this seed, the epoch and the position of the batch, if [`LoaderOptions::mix`] is on. A panic of the source becomes [`DataError::Panicked`]. If the system refuses a thread, the loader uses fewer.
    pub fn start(
        source: Arc<dyn Source>,
        split: Split,
        order: SampleOrder,
        epoch: usize,
        first_batch: usize,
        augment_seed: Option<u64>,
        options: &LoaderOptions,
    ) -> Self {
        let assembler = Assembler {
            spec: source.spec().clone(),
            source,
            split,
            order: order.epoch(epoch),
            augment: augment_seed.map(|seed| augment_key(seed, epoch)),
            mix: options.mix,
            mix_key: augment_seed.map(|seed| Key::new(seed).with_name("mix").with(epoch as u64)),
            on_corrupt: options.on_corrupt,
        };
        let left = assembler.batches().saturating_sub(first_batch);
        let workers = options.workers.min(left);
        let batches = Prefetcher::start(assembler, first_batch, workers, options.prefetch.max(1));
        Self { batches, failed: false }
    }
}

impl Iterator for Loader {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let batch = self.batches.next();
        self.failed = matches!(batch, Some(Err(_)));
        batch
    }
}
