//! Training on several devices.
//!
//! Replicas (`ddp`): every rank has the whole model and its part of each batch. Rank 0 leads: it decides what is done
//! next, writes and tells; the others follow its [orders](order::Order). Gradients are summed over all ranks while backward
//! goes on, so that every rank takes the same optimizer step. Ranks are threads of this process, or processes.

pub(crate) mod chain;
mod follower;
mod launch;
mod order;
mod process;
mod reduction;
mod replicas;

pub(crate) use launch::{guarded, train_on_replicas};
pub(crate) use order::Order;
pub use process::{Process, follow};
pub(crate) use reduction::{Bucket, Reduction, buckets};
pub(crate) use replicas::Replicas;
