//! Trains on simulated GPUs, whose kernels are computed, and compares losses and gradients with those of the processor.
//!
//! ```text
//! cargo xtask gpu check            all cases
//! cargo xtask gpu check lstm bf16  the cases whose name has one of the words
//! cargo xtask gpu --real --oomph target/release/oomph check   the cases for one GPU, on that of this machine
//! ```

pub(crate) mod case;
mod gradients;
mod losses;

use std::{fs, process::Command};

use case::{Against, Case, GRU, LANGUAGE, LSTM, ONE_LONG_STEP, Products, RESNET, case};

use super::Simulation;
use crate::Outcome;

/// The losses of ResNets differ widely after more steps in 16 bits, on the processor too.
const FEW_STEPS_FP16: &[&str] = &["memory.precision=fp16", "train.steps=3", "optimizer.lr=1e-3"];
const FEW_STEPS_BF16: &[&str] = &["memory.precision=bf16", "train.steps=3", "optimizer.lr=1e-3"];

/// Layers that are large enough for packed state.
const WIDE_INT8: &[&str] = &["model.hidden=48", "train.steps=6", "optimizer.state=int8"];
const OFFLOAD: &[&str] = &["memory.recompute=stages", "memory.offload=optimizer,activations"];
const INT8_OFFLOAD: &[&str] =
    &["model.hidden=48", "train.steps=6", "optimizer.state=int8", "memory.offload=optimizer"];
const WIDE_BF16: &[&str] =
    &["model.hidden=48", "train.steps=6", "optimizer.name=lion", "optimizer.state=bf16"];

/// A training on two cards, whose losses are those of one.
const fn two_cards(name: &'static str, config: &'static str, settings: &'static [&'static str]) -> Case {
    Case { name, config, cards: "2xT4", devices: "cuda:0,cuda:1", settings, against: Against::OneCard(1e-5) }
}

/// A training on four cards, whose losses are those of one.
const fn four_cards(name: &'static str, config: &'static str, settings: &'static [&'static str]) -> Case {
    let devices = "cuda:0,cuda:1,cuda:2,cuda:3";
    Case { name, config, cards: "4xT4", devices, settings, against: Against::OneCard(1e-5) }
}

/// The gradients of one step.
const fn gradients(name: &'static str, config: &'static str) -> Case {
    case(name, config, "T4", ONE_LONG_STEP, Against::Gradients(1e-3))
}

const CASES: [Case; 30] = [
    // With the seed 0, a rounding error decides about a ReLU in the third step.
    case("resnet fp32", RESNET, "T4", &["train.seed=1"], Against::Processor(1e-3)),
    case("lstm fp32", LSTM, "T4", &[], Against::Processor(1e-3)),
    case("language model fp32", LANGUAGE, "T4", &[], Against::Processor(1e-3)),
    case("resnet fp16", RESNET, "T4", FEW_STEPS_FP16, Against::ItsOwnDeviation(2e-3)),
    case("gru fp32", GRU, "T4", &[], Against::Processor(1e-3)),
    case("lstm bf16", LSTM, "A100", &["memory.precision=bf16"], Against::ItsOwnDeviation(2e-3)),
    case("resnet bf16", RESNET, "A100", FEW_STEPS_BF16, Against::ItsOwnDeviation(5e-3)),
    case("resnet recompute", RESNET, "T4", &["memory.recompute=stages"], Against::Processor(1e-3)),
    case("lstm micro-batches", LSTM, "T4", &["memory.micro_batch=4"], Against::Processor(1e-3)),
    case(
        "resnet Burn's layers",
        RESNET,
        "T4",
        // With the seed 0, a rounding error decides about a ReLU in the second step.
        &["memory.lean=false", "train.steps=3", "train.seed=1"],
        Against::Processor(1e-3),
    ),
    case("lstm Burn's layers", LSTM, "T4", &["memory.lean=false", "train.steps=3"], Against::Processor(1e-3)),
    case("resnet released", RESNET, "T4", &["memory.gradients=release"], Against::Processor(1e-3)),
    case(
        "resnet int8 state",
        RESNET,
        "T4",
        // A longer training of larger steps amplifies the rounding of a code: after 8 steps losses differ by 1e-2.
        &[
            "train.steps=5",
            "optimizer.lr=2e-4",
            "train.seed=1",
            "optimizer.state=int8",
            "memory.gradients=release",
        ],
        Against::Processor(1e-3),
    ),
    case("resnet offload", RESNET, "T4", OFFLOAD, Against::Processor(1e-3)),
    case("lstm int8 state offload", LSTM, "T4", INT8_OFFLOAD, Against::Processor(2e-3)),
    case("resnet bf16 state", RESNET, "T4", &["optimizer.state=bf16"], Against::Processor(1e-3)),
    case("lstm int8 state", LSTM, "T4", WIDE_INT8, Against::Processor(2e-3)),
    case("lstm bf16 state", LSTM, "T4", WIDE_BF16, Against::Processor(1e-3)),
    two_cards(
        "lstm ddp released",
        LSTM,
        &["device.strategy=ddp", "device.bucket=1KiB", "optimizer.clip_norm=1.0", "memory.gradients=release"],
    ),
    four_cards(
        "resnet pipeline of 4 released",
        RESNET,
        &["device.strategy=pipeline", "memory.micro_batch=4", "train.steps=3", "memory.gradients=release"],
    ),
    two_cards("lstm ddp", LSTM, &["device.strategy=ddp"]),
    two_cards("lstm dp", LSTM, &["device.strategy=dp"]),
    two_cards("lstm model", LSTM, &["device.strategy=model"]),
    two_cards("lstm pipeline", LSTM, &["device.strategy=pipeline", "memory.micro_batch=4"]),
    four_cards("lstm ddp of 4", LSTM, &["device.strategy=ddp"]),
    four_cards("resnet model of 4", RESNET, &["device.strategy=model", "train.steps=3"]),
    four_cards(
        "resnet pipeline of 4",
        RESNET,
        &["device.strategy=pipeline", "memory.micro_batch=4", "train.steps=3"],
    ),
    gradients("resnet gradients", RESNET),
    gradients("lstm gradients", LSTM),
    gradients("language model gradients", LANGUAGE),
];

/// Runs the cases whose name has one of `words`, or all.
pub(super) fn run(simulation: &Simulation, words: &[String]) -> Outcome {
    let start = || -> Command { simulation.command(&simulation.setup.folder.join("cache")) };
    case::run(&CASES, words, Products::Fp32, &start)
}

/// Runs the cases for one GPU on that of this machine.
pub(super) fn run_on_card(oomph: &str, words: &[String]) -> Outcome {
    let oomph = fs::canonicalize(oomph)?;
    let mut cases = CASES;
    let of_one = cases.iter().filter(|case| case.devices == "cuda:0").count();
    // Stable: the cases stay in their order.
    cases.sort_by_key(|case| case.devices != "cuda:0");
    case::run(&cases[..of_one], words, Products::Tf32, &|| Command::new(&oomph))
}
