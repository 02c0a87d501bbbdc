//! Training on several devices.
//!
//! Replicas (`ddp`): every rank has the whole model and its part of each batch. Rank 0 leads: it decides what is done
//! next, writes and tells; the others follow its [orders](order::Order). Gradients are summed over all ranks while backward
//! goes on, so that every rank takes the same optimizer step. Ranks are threads of this process, or processes.

pub(crate) mod chain;
mod collective;
pub(crate) mod coordinator;
mod follower;
mod handover;
mod launch;
mod order;
mod outcome;
mod part;
mod place;
mod process;
mod reduction;
mod replicas;

pub(crate) use collective::{are_different_gpus, has_nccl};
pub(crate) use launch::{guarded, train_on_replicas};
pub(crate) use order::Order;
pub(crate) use outcome::SeveralDone;
pub(crate) use part::{Part, PartContext};
pub(crate) use place::Place;
pub use process::{Process, follow};
pub(crate) use reduction::{Bucket, Reduction, buckets};
pub(crate) use replicas::Replicas;
