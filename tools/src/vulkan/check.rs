//! Trains on lavapipe, and compares losses and gradients with those of the processor.
//!
//! ```text
//! cargo xtask vulkan check        all cases
//! cargo xtask vulkan check lstm   the cases whose name has one of the words
//! ```

use super::Lavapipe;
use crate::{
    Outcome,
    gpu::check::case::{
        self,
        Against::{Gradients, Processor},
        Case, LANGUAGE, LSTM, ONE_LONG_STEP, Products, RESNET, vulkan,
    },
};

const CASES: [Case; 13] = [
    // Losses differ by 1e-6 until a rounding error decides about a ReLU. With longer steps that happens earlier.
    // With the seed 0 it does in step 19.
    vulkan("resnet", RESNET, &["train.steps=20", "optimizer.lr=2e-4", "train.seed=1"], Processor(1e-3)),
    vulkan("lstm", LSTM, &[], Processor(1e-3)),
    vulkan("language model", LANGUAGE, &[], Processor(1e-3)),
    vulkan(
        "resnet recompute",
        RESNET,
        &["optimizer.lr=2e-4", "train.seed=1", "memory.recompute=stages"],
        Processor(1e-3),
    ),
    vulkan("lstm micro-batches", LSTM, &["memory.micro_batch=4"], Processor(1e-3)),
    vulkan("lstm released", LSTM, &["optimizer.clip_norm=1.0", "memory.gradients=release"], Processor(1e-3)),
    vulkan(
        "lstm offload",
        LSTM,
        &["memory.recompute=stages", "memory.offload=optimizer,activations"],
        Processor(1e-3),
    ),
    vulkan(
        "resnet int8 state",
        RESNET,
        &["train.steps=5", "optimizer.lr=2e-4", "train.seed=1", "optimizer.state=int8"],
        Processor(1e-3),
    ),
    vulkan(
        "lstm bf16 state",
        LSTM,
        &["model.hidden=48", "train.steps=6", "optimizer.state=bf16"],
        Processor(1e-3),
    ),
    // With the seed 0, a rounding error decides about a ReLU in the second step.
    vulkan(
        "resnet Burn's layers",
        RESNET,
        &["memory.lean=false", "train.steps=3", "train.seed=1"],
        Processor(1e-3),
    ),
    vulkan("resnet gradients", RESNET, ONE_LONG_STEP, Gradients(1e-3)),
    vulkan("lstm gradients", LSTM, ONE_LONG_STEP, Gradients(1e-3)),
    vulkan("language model gradients", LANGUAGE, ONE_LONG_STEP, Gradients(1e-3)),
];

/// Runs the cases whose name has one of `words`, or all.
pub(super) fn run(lavapipe: &Lavapipe, words: &[String]) -> Outcome {
    case::run(&CASES, words, Products::Fp32, &|| lavapipe.start())
}
