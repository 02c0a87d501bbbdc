//! Replicas that train together, one per rank: the all-reduce of gradients, shared statistics, gathered state.

mod bucket;
mod collective;
mod reduction;
mod replicas;

pub(crate) use bucket::{Bucket, bucket_ends, buckets};
pub use collective::Collective;
pub(crate) use reduction::Reduction;
pub use replicas::{Replicas, waiting};
