//! Replicas that train together, one per rank: the all-reduce of gradients, shared statistics, gathered state, and what is sharded
//! over them.

mod buckets;
mod gather;
mod reduction;
mod replicas;
mod shard_record;
mod shard_sums;
mod shards;
mod weights;

pub(crate) use buckets::{Bucket, bucket_ends, buckets, completed};
pub use gather::Gatherer;
pub(crate) use gather::ShardStep;
pub(crate) use reduction::{Reduction, Times};
pub use replicas::{Collective, Replicas, waiting};
pub(crate) use shard_record::{shard_record, whole_model_record, whole_optimizer_record};
pub(crate) use shard_sums::ShardSums;
pub(crate) use shards::{ShardSettings, Shards};
pub(crate) use weights::Weights;
