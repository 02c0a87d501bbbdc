//! Several devices train what one device does: the same weights after the same steps.

mod averages;
mod bubble;
mod chain;
mod cut;
mod ddp;
mod dp;
mod labels;
mod language_models;
mod mixing;
mod norms;
mod offload;
mod packed;
mod release;
mod samples;
mod shard;
mod support;
