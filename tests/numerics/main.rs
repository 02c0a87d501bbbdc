//! The mathematics of oomph, held against three independent witnesses: what PyTorch computed (`tests/golden`), what
//! another way to compute the same gives, and a second run of itself.
//!
//! Every comparison prints its worst error: `cargo test --release --test numerics -- --nocapture`.

mod batch_norm;
mod blocks;
mod class_weights;
mod clip;
mod compare;
mod determinism;
mod digits;
mod finite_differences;
mod formula;
mod freeze;
mod golden;
mod gru;
mod host;
mod hugging_face;
mod language;
mod lora;
mod loss_scale;
mod lstm;
mod micro_batch;
mod multi_label;
mod network;
mod onnx;
mod optimizers;
mod precision;
mod recompute;
mod recurrent_runs;
mod resnet;
mod schedules;
mod series;
mod summary;
mod task;
mod transformer;
