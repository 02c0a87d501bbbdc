//! Replicas that train together, one per rank: the all-reduce of gradients, shared statistics, gathered state.

mod buckets;
mod reduction;
mod replicas;

pub(crate) use buckets::{Bucket, bucket_ends, buckets, completed};
pub(crate) use reduction::{Reduction, Times};
pub use replicas::{Collective, Replicas, waiting};
