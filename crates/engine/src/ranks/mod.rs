//! Replicas that train together, one per rank: the all-reduce of gradients, shared statistics, gathered state.

mod reduction;
mod replicas;

pub(crate) use reduction::{Bucket, Reduction, bucket_ends, buckets};
pub use replicas::{Collective, Replicas, waiting};
