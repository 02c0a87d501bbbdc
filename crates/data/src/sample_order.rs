use std::ops::Range;

use oomph_core::{Generator, Key};

use crate::sampling::ClassMembers;

/// The treatment of a last batch of an epoch that is smaller than the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastBatch {
    /// The smaller batch is used.
    #[default]
    Keep,
    /// The smaller batch is left out. Its samples differ from epoch to epoch, like the order.
    Drop,
}

/// The samples of each batch, as a function of (seed, epoch, batch) alone.
///
/// In training every epoch visits every sample once (but for [`LastBatch::Drop`]) in its own order, or draws as many from
/// [balanced](Self::balanced) classes. Evaluation keeps the
/// order of the source. Both read consecutive samples of continuous data as [`streams`](Self::streams).
///
/// ```
/// use oomph_data::{LastBatch, SampleOrder};
///
/// let order = SampleOrder::train(10, 4, 42, LastBatch::Keep);
/// let mut seen: Vec<_> = (0..order.batches()).flat_map(|batch| order.indices(0, batch)).collect();
/// seen.sort();
/// assert_eq!(seen, (0..10).collect::<Vec<_>>());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleOrder {
    samples: usize,
    batch: usize,
    last_batch: LastBatch,
    arrangement: SampleArrangement,
    rank: usize,
    world: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SampleArrangement {
    /// The order of the source.
    AsTheyAre,
    /// A new shuffle in each epoch, by this seed.
    Shuffled(u64),
    /// New draws from the classes in each epoch, by this seed.
    Balanced(ClassMembers, u64),
    /// Consecutive samples at the same place of consecutive batches.
    Streams,
}

impl SampleOrder {
    /// The shuffled order of training on `samples` samples in batches of `batch` (0 counts as 1).
    pub fn train(samples: usize, batch: usize, seed: u64, last_batch: LastBatch) -> Self {
        Self::new(samples, batch, last_batch, SampleArrangement::Shuffled(seed))
    }

    /// As many draws as `samples`, with replacement: a class of `members`, each equally likely, then one of its samples. Each
    /// epoch draws its own. Without members, otherwise as [`train`](Self::train).
    ///
    /// ```
    /// # use oomph_config::Section;
    /// use oomph_data::{LastBatch, OpenContext, SampleOrder, digits, sampling::ClassMembers};
    ///
    /// # let section = Section::from_toml("data", "")?;
    /// let source = digits(&section)?.open(&OpenContext::new("unused", 0))?;
    /// let order = SampleOrder::balanced(ClassMembers::of(&*source), 1438, 32, 42, LastBatch::Keep);
    /// assert_eq!(order.indices(0, 0).len(), 32);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn balanced(
        members: ClassMembers,
        samples: usize,
        batch: usize,
        seed: u64,
        last_batch: LastBatch,
    ) -> Self {
        match members.is_empty() {
            true => Self::train(samples, batch, seed, last_batch),
            false => Self::new(samples, batch, last_batch, SampleArrangement::Balanced(members, seed)),
        }
    }

    /// The order of evaluation: the order of the source, with the last batch.
    pub fn eval(samples: usize, batch: usize) -> Self {
        Self::new(samples, batch, LastBatch::Keep, SampleArrangement::AsTheyAre)
    }

    /// Continuous data cut into `batch` streams: the samples at one place of consecutive batches are consecutive. The
    /// order is the same in every epoch.
    ///
    /// The lengths of streams differ by at most one sample. The first ones are longer, so that they keep their places in
    /// a smaller last batch. With [`LastBatch::Drop`] all have the same length, and the last samples are left out.
    ///
    /// ```
    /// use oomph_data::{LastBatch, SampleOrder};
    ///
    /// let order = SampleOrder::streams(7, 3, LastBatch::Keep);
    /// let batches: Vec<_> = (0..order.batches()).map(|batch| order.indices(0, batch)).collect();
    /// assert_eq!(batches, [vec![0, 3, 5], vec![1, 4, 6], vec![2]]);
    /// ```
    pub fn streams(samples: usize, batch: usize, last_batch: LastBatch) -> Self {
        Self::new(samples, batch, last_batch, SampleArrangement::Streams)
    }

    fn new(samples: usize, batch: usize, last_batch: LastBatch, arrangement: SampleArrangement) -> Self {
        Self { samples, batch: batch.max(1), last_batch, arrangement, rank: 0, world: 1 }
    }

    /// The part of every batch for `rank` of `world` processes.
    ///
    /// Each rank takes a consecutive piece of the batch. The sizes of pieces differ by at most one sample, and together
    /// they are the batch. A rank keeps its streams in a smaller last batch, where its piece may be empty. A `world` of 0
    /// counts as 1; a rank that is not below `world` gets nothing.
    #[must_use]
    pub fn shard(self, rank: usize, world: usize) -> Self {
        Self { rank, world: world.max(1), ..self }
    }

    /// The most samples that one rank has of a batch.
    ///
    /// ```
    /// use oomph_data::SampleOrder;
    /// // Batches of 12 for 3 ranks, but there are 10 samples in all.
    /// assert_eq!(SampleOrder::eval(10, 12).shard(0, 3).largest_share(), 4);
    /// ```
    pub fn largest_share(&self) -> usize {
        let most = self.batch.min(self.len());
        match self.arrangement {
            // A rank keeps its streams.
            SampleArrangement::Streams => self.batch.div_ceil(self.world).min(most),
            _ => most.div_ceil(self.world),
        }
    }

    /// Number of batches of one epoch. 0 without samples, or with fewer samples than a batch and [`LastBatch::Drop`].
    pub fn batches(&self) -> usize {
        match self.last_batch {
            LastBatch::Keep => self.samples.div_ceil(self.batch),
            LastBatch::Drop => self.samples / self.batch,
        }
    }

    /// Number of samples that one epoch visits on all ranks together.
    pub fn len(&self) -> usize {
        self.samples.min(self.batches() * self.batch)
    }

    /// Whether an epoch visits no sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The indices of the samples of batch `batch` of epoch `epoch`; empty beyond the last batch.
    ///
    /// Each call shuffles the whole epoch; a [`Loader`](crate::Loader) shuffles once per epoch.
    pub fn indices(&self, epoch: usize, batch: usize) -> Vec<usize> {
        self.epoch(epoch).indices(batch)
    }

    /// The order within one epoch.
    pub(crate) fn epoch(&self, epoch: usize) -> EpochOrder {
        let shuffled = match &self.arrangement {
            SampleArrangement::Shuffled(seed) => {
                let mut indices: Vec<_> = (0..self.samples).collect();
                Generator::at(Key::new(*seed).with_name("order").with(epoch as u64)).shuffle(&mut indices);
                Some(indices)
            }
            SampleArrangement::Balanced(members, seed) => {
                let key = Key::new(*seed).with_name("balanced order").with(epoch as u64);
                Some(members.draw(self.samples, &mut Generator::at(key)))
            }
            SampleArrangement::AsTheyAre | SampleArrangement::Streams => None,
        };
        EpochOrder { order: self.clone(), shuffled }
    }
}

/// A sample at its place in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) index: usize,
    /// The place, if a sample can occur several times in an epoch.
    pub(crate) occurrence: Option<usize>,
}

/// An [`SampleOrder`] within one epoch.
pub(crate) struct EpochOrder {
    order: SampleOrder,
    shuffled: Option<Vec<usize>>,
}

impl EpochOrder {
    pub(crate) fn batches(&self) -> usize {
        self.order.batches()
    }

    /// Whether each sample follows the one at the same place of the previous batch.
    pub(crate) fn continues(&self, batch: usize) -> bool {
        self.order.arrangement == SampleArrangement::Streams && batch > 0
    }

    /// The samples of this rank in a batch.
    pub(crate) fn visits(&self, batch: usize) -> impl Iterator<Item = Visit> {
        self.places(batch).map(move |place| self.visit(batch, place))
    }

    /// The indices of [`visits`](Self::visits).
    pub(crate) fn indices(&self, batch: usize) -> Vec<usize> {
        self.visits(batch).map(|visit| visit.index).collect()
    }

    /// The sample before the first of this rank in the whole batch; before the first of all comes the last. `None` without
    /// samples.
    pub(crate) fn before_first(&self, batch: usize) -> Option<Visit> {
        let (count, places) = (self.count(batch), self.places(batch));
        (!places.is_empty()).then(|| self.visit(batch, (places.start + count - 1) % count))
    }

    /// The number of samples of a batch on all ranks together.
    fn count(&self, batch: usize) -> usize {
        self.order.batch.min(self.order.len().saturating_sub(batch.saturating_mul(self.order.batch)))
    }

    /// The places of this rank in a batch.
    fn places(&self, batch: usize) -> Range<usize> {
        let SampleOrder { batch: size, rank, world, ref arrangement, .. } = self.order;
        let count = self.count(batch);
        if rank >= world {
            return 0..0;
        }
        let piece = |of: usize| of * rank / world..of * (rank + 1) / world;
        match arrangement {
            // A rank keeps its streams.
            SampleArrangement::Streams => piece(size).start.min(count)..piece(size).end.min(count),
            _ => piece(count),
        }
    }

    /// The sample at a place of a batch.
    fn visit(&self, batch: usize, place: usize) -> Visit {
        let place_in_epoch = batch * self.order.batch + place;
        let index = match (&self.order.arrangement, &self.shuffled) {
            (SampleArrangement::Streams, _) => self.start_of_stream(place) + batch,
            (_, Some(shuffled)) => shuffled[place_in_epoch],
            (_, None) => place_in_epoch,
        };
        let recurs = matches!(self.order.arrangement, SampleArrangement::Balanced(..));
        Visit { index, occurrence: recurs.then_some(place_in_epoch) }
    }

    /// The first sample of the stream at this place of the batch.
    fn start_of_stream(&self, place: usize) -> usize {
        let SampleOrder { samples, batch, last_batch, .. } = self.order;
        let longer = match last_batch {
            LastBatch::Keep => place.min(samples % batch),
            LastBatch::Drop => 0,
        };
        place * (samples / batch) + longer
    }
}

#[cfg(test)]
mod tests {
    use oomph_core::{InputSpec, SampleSpec, Split, TargetSpec};
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{Sample, SampleError, Source, Target, Values};

    fn orders() -> impl Strategy<Value = SampleOrder> {
        let train = (0usize..200, 1usize..40, any::<u64>(), any::<bool>()).prop_map(
            |(samples, batch, seed, drop)| {
                SampleOrder::train(samples, batch, seed, if drop { LastBatch::Drop } else { LastBatch::Keep })
            },
        );
        let eval = (0usize..200, 1usize..40).prop_map(|(samples, batch)| SampleOrder::eval(samples, batch));
        prop_oneof![train, eval, streams()]
    }

    fn streams() -> impl Strategy<Value = SampleOrder> {
        (0usize..200, 1usize..40, any::<bool>()).prop_map(|(samples, batch, drop)| {
            SampleOrder::streams(samples, batch, if drop { LastBatch::Drop } else { LastBatch::Keep })
        })
    }

    fn visited(order: &SampleOrder, epoch: usize) -> Vec<usize> {
        (0..order.batches()).flat_map(|batch| order.indices(epoch, batch)).collect()
    }

    proptest! {
        #[test]
        fn an_epoch_visits_no_sample_twice_and_loses_none(order in orders(), epoch in 0usize..5) {
            let mut seen = visited(&order, epoch);
            prop_assert_eq!(seen.len(), order.len());
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), order.len());
            prop_assert!(seen.iter().all(|&index| index < order.samples));
            if order.last_batch == LastBatch::Keep {
                prop_assert_eq!(seen.len(), order.samples);
            }
        }

        #[test]
        fn only_the_last_batch_may_be_smaller_and_not_when_dropped(order in orders(), epoch in 0usize..5) {
            for batch in 0..order.batches() {
                let size = order.indices(epoch, batch).len();
                let may_be_smaller = order.last_batch == LastBatch::Keep && batch + 1 == order.batches();
                prop_assert!(size == order.batch || may_be_smaller && size > 0);
            }
            prop_assert!(order.indices(epoch, order.batches()).is_empty());
        }

        #[test]
        fn any_batch_can_be_asked_for_first(order in orders(), epoch in 0usize..5, asked in vec(0usize..40, 1..5)) {
            let straight: Vec<_> = (0..order.batches()).map(|batch| order.indices(epoch, batch)).collect();
            for batch in asked.into_iter().filter(|&batch| batch < order.batches()) {
                prop_assert_eq!(&order.indices(epoch, batch), &straight[batch]);
            }
        }

        #[test]
        fn the_shards_of_a_batch_make_the_batch(order in orders(), epoch in 0usize..3, world in 1usize..9) {
            for batch in 0..order.batches() {
                let shards: Vec<_> =
                    (0..world).map(|rank| order.clone().shard(rank, world).indices(epoch, batch)).collect();
                let sizes = shards.iter().map(Vec::len);
                let whole = order.indices(epoch, batch).len() == order.batch;
                if whole || order.arrangement != SampleArrangement::Streams {
                    prop_assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
                }
                prop_assert_eq!(shards.concat(), order.indices(epoch, batch));
            }
        }

        #[test]
        fn the_sample_before_a_shard_is_the_last_of_the_shard_before(
            order in orders(),
            epoch in 0usize..3,
            world in 1usize..9,
        ) {
            for batch in 0..=order.batches() {
                let whole = order.indices(epoch, batch);
                let mut before = whole.last().copied();
                for rank in 0..world {
                    let shard = order.clone().shard(rank, world).epoch(epoch);
                    let indices = shard.indices(batch);
                    let before_first = shard.before_first(batch).map(|visit| visit.index);
                    prop_assert_eq!(before_first, before.filter(|_| !indices.is_empty()));
                    before = indices.last().copied().or(before);
                }
            }
        }

        #[test]
        fn streams_go_on_at_their_places_on_every_rank(order in streams(), world in 1usize..9) {
            for rank in 0..world {
                let epoch = order.clone().shard(rank, world).epoch(0);
                for batch in 1..order.batches() {
                    prop_assert!(epoch.continues(batch));
                    let (before, now) = (epoch.indices(batch - 1), epoch.indices(batch));
                    prop_assert!(now.len() <= before.len());
                    prop_assert!(now.iter().zip(&before).all(|(now, before)| *now == before + 1));
                }
            }
        }
    }

    /// Classes of 90, 9 and 1 samples.
    fn unbalanced() -> ClassMembers {
        struct Unbalanced(SampleSpec);

        impl Source for Unbalanced {
            fn spec(&self) -> &SampleSpec {
                &self.0
            }

            fn len(&self, _: Split) -> usize {
                100
            }

            fn sample(&self, _: Split, index: usize, _: Option<Key>) -> Result<Sample, SampleError> {
                let class = usize::from(index >= 90) + usize::from(index == 99);
                Ok(Sample { input: Values::Floats(vec![0.0]), target: Target::Class(class) })
            }
        }
        let spec =
            SampleSpec { input: InputSpec::Vector { features: 1 }, target: TargetSpec::Class { count: 4 } };
        ClassMembers::of(&Unbalanced(spec))
    }

    #[test]
    fn balanced_draws_have_as_many_of_each_class() {
        let order = SampleOrder::balanced(unbalanced(), 3000, 32, 7, LastBatch::Keep);
        let drawn = visited(&order, 2);
        assert_eq!(drawn.len(), 3000);
        let count =
            |members: std::ops::Range<usize>| drawn.iter().filter(|index| members.contains(*index)).count();
        // Five standard deviations of a binomial distribution with p = 1/3: 129.
        for of_class in [count(0..90), count(90..99), count(99..100)] {
            assert!(of_class.abs_diff(1000) < 129, "{of_class}");
        }
        assert!((90..99).all(|index| drawn.contains(&index)));
        assert_ne!(visited(&order, 1), drawn);
        assert_eq!(visited(&order, 2), drawn);
        // The ranks share the draws, and each place of the epoch is drawn anew.
        let shards: Vec<_> = (0..3).flat_map(|rank| order.clone().shard(rank, 3).indices(2, 5)).collect();
        assert_eq!(shards, order.indices(2, 5));
        let places = |rank| -> Vec<_> {
            let epoch = order.clone().shard(rank, 3).epoch(2);
            epoch.before_first(5).into_iter().chain(epoch.visits(5)).map(|visit| visit.occurrence).collect()
        };
        let expected =
            |before, of_rank: Range<usize>| [before].into_iter().chain(of_rank).map(Some).collect::<Vec<_>>();
        assert_eq!(places(0), expected(191, 160..170));
        assert_eq!(places(1), expected(169, 170..181));
        assert_eq!(places(2), expected(180, 181..192));
        assert!(SampleOrder::eval(10, 2).epoch(0).visits(1).all(|visit| visit.occurrence.is_none()));
    }

    #[test]
    fn the_draws_never_change_between_versions() {
        let order = SampleOrder::balanced(unbalanced(), 8, 3, 42, LastBatch::Keep);
        assert_eq!(visited(&order, 1), FROZEN_DRAWS);
    }
    const FROZEN_DRAWS: [usize; 8] = [92, 53, 99, 90, 99, 69, 79, 99];

    #[test]
    fn only_streams_continue() {
        let orders = [SampleOrder::train(10, 2, 0, LastBatch::Keep), SampleOrder::eval(10, 2)];
        assert!(orders.iter().all(|order| !order.epoch(0).continues(1)));
        assert!(!SampleOrder::streams(10, 2, LastBatch::Keep).epoch(0).continues(0));
    }

    #[test]
    fn epochs_and_seeds_have_different_orders() {
        let order = |seed, epoch| visited(&SampleOrder::train(100, 10, seed, LastBatch::Keep), epoch);
        assert_eq!(order(1, 0), order(1, 0));
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
    }

    #[test]
    fn the_order_does_not_depend_on_the_size_of_a_batch() {
        let order = |batch| visited(&SampleOrder::train(100, batch, 7, LastBatch::Keep), 3);
        assert_eq!(order(1), order(64));
    }

    #[test]
    fn evaluation_keeps_the_order_of_the_source() {
        assert_eq!(visited(&SampleOrder::eval(10, 4), 5), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn the_order_never_changes_between_versions() {
        // A later version that resumes a run must continue with the unseen samples, so these are frozen.
        assert_eq!(visited(&SampleOrder::train(8, 3, 42, LastBatch::Keep), 1), FROZEN);
    }
    const FROZEN: [usize; 8] = [1, 4, 5, 7, 0, 6, 2, 3];
}
