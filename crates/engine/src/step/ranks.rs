//! What a stepper shares with other ranks.

use std::sync::Arc;

use oomph_config::sections::sharing::Shard;
use oomph_memory::{Account, charge};
use oomph_model::Peers;

use crate::{
    EngineError,
    ranks::{Gatherer, Replicas, ShardStep, ShardSums, Shards, Times},
};

/// The all-reduce and shared statistics with other ranks.
pub(super) struct StepperRanks {
    pub(super) replicas: Replicas,
    /// Gathers parameters whose shards the ranks hold or step; `None` unless something is sharded.
    pub(super) gatherer: Option<Gatherer>,
    /// The ranks that batch normalisation shares its statistics with.
    pub(super) peers: Option<Arc<dyn Peers>>,
    /// Seconds in which gradients were in flight, and seconds in which this rank waited for them.
    pub(super) all_reduce_seconds: Option<[f64; 2]>,
}

impl StepperRanks {
    pub(super) fn new(replicas: Replicas, gatherer: Option<Gatherer>, shares_statistics: bool) -> Self {
        let peers = replicas.peers().filter(|_| shares_statistics);
        Self { replicas, gatherer, peers, all_reduce_seconds: None }
    }

    /// What gathers sharded parameters; `None` if every rank has all parameters.
    pub(super) fn of_parameters(&self) -> Option<&Gatherer> {
        self.gatherer.as_ref().filter(|it| it.shards.has(Shard::Parameters))
    }

    /// The shards of the gradients, if they are sharded.
    pub(super) fn shards_of_gradients(&self) -> Option<Shards> {
        let gatherer = self.gatherer.as_ref().filter(|it| it.shards.has(Shard::Gradients))?;
        Some(charge(Account::Host, || gatherer.shards.clone()))
    }

    /// Sums over ranks of what each knows of its shards of the gradients; `None` if every rank has whole gradients.
    pub(super) fn sums(&self) -> Option<ShardSums> {
        let gatherer = self.gatherer.as_ref().filter(|it| it.shards.has(Shard::Gradients))?;
        Some(ShardSums { replicas: self.replicas.clone(), executes: gatherer.executes })
    }

    /// Steps shards of whole parameters; `None` if no state is sharded, or if parameters are too.
    pub(super) fn shard_step(&self) -> Option<ShardStep> {
        let gatherer = self.gatherer.as_ref().filter(|it| !it.shards.has(Shard::Parameters))?;
        Some(ShardStep::new(gatherer.clone()))
    }

    /// The sizes of the micro-batches with a 0 for each that another rank has and this one has not, where ranks meet in every
    /// micro-batch.
    pub(super) fn with_idle_micro_batches(&self, mut sizes: Vec<usize>) -> Result<Vec<usize>, EngineError> {
        if self.shards_of_gradients().is_none() {
            return Ok(sizes);
        }
        let mut counts = vec![0.0; self.replicas.world_size()];
        counts[self.replicas.rank()] = sizes.len() as f64;
        let most = self.replicas.sum(&counts)?.into_iter().fold(0.0, f64::max);
        // A count of a few micro-batches is exact.
        charge(Account::Host, || sizes.resize(most as usize, 0));
        Ok(sizes)
    }

    /// Counts the times of an all-reduce.
    pub(super) fn count(&mut self, times: Times) {
        if let Some(times) = times {
            let before = self.all_reduce_seconds.unwrap_or_default();
            self.all_reduce_seconds = Some([0, 1].map(|of| before[of] + times[of].as_secs_f64()));
        }
    }
}
