//! Compares planned memory with the pools of a Vulkan device, over trainings that lavapipe computes.
//!
//! ```text
//! cargo xtask vulkan pages [--save]
//! ```
//!
//! Each training is profiled: the pools are read where stages and phases of two steps end. The tool fails where a plan of reserved
//! bytes or of bytes in use is more than 3 % too low.

use std::{error::Error, fs, process::ExitCode};

use oomph_advice::planning::{PlanOptions, plan};
use oomph_config::Config;
use oomph_trainer::{Registry, open_to_plan};

use super::Lavapipe;
use crate::{
    Outcome,
    gpu::pages::profile::{COMPARED, Compared, Profile},
    measured::{Measured, without_save},
};

/// The greatest error of a plan that is too low, as a share. It is that of small trainings: a tensor of a MiB more or less, which no
/// other reuses, is a large share of them.
const MOST: f64 = 0.03;

/// Models with their data, optimizers and batches.
const MODELS: [(&str, &str, usize); 4] = [
    (
        "ResNet-18, 8², width 16",
        "model = { name = 'resnet18', stem = 'small', width = 16 }
            data = { source = 'digits', workers = 0 }
            optimizer = { name = 'sgd', lr = 1e-3, momentum = 0.9, weight_decay = 5e-4 }",
        32,
    ),
    (
        "ResNet-50, 64², width 16",
        "model = { name = 'resnet50', width = 16 }
            data = { source = 'synthetic', height = 64, width = 64, classes = 10, train_samples = 64, workers = 0 }
            optimizer = { name = 'sgd', lr = 1e-3, momentum = 0.9 }",
        8,
    ),
    (
        "LSTM 32 → 2 × 128, 32 steps",
        "model = { name = 'lstm', hidden = 128, layers = 2 }
            data = { source = 'synthetic', kind = 'sequence', steps = 32, features = 32, train_samples = 256, workers = 0 }
            optimizer.name = 'adamw'",
        32,
    ),
    (
        "language model, 2 × 96, 32 steps",
        "model = { name = 'lstm-lm', hidden = 96, layers = 2 }
            data = { source = 'synthetic', kind = 'tokens', steps = 32, train_samples = 256, workers = 0 }
            optimizer.name = 'adam'",
        32,
    ),
];

/// Settings that change what a training allocates, and the number of micro-batches.
const LEVERS: [(&str, &str, usize); 4] = [
    ("fp32", "", 1),
    ("recompute", "memory.recompute = 'stages'", 1),
    ("4 micro-batches", "", 4),
    ("Burn's layers", "memory.lean = false", 1),
];

const LABELS: [&str; 3] = ["model", "training", ">batch"];

/// Runs the tool.
pub(super) fn run(lavapipe: &Lavapipe, arguments: &[String]) -> Outcome {
    let (arguments, is_saved) = without_save(arguments);
    if let [unknown, ..] = &arguments[..] {
        return Err(format!("`{unknown}`: expected `--save` alone").into());
    }
    let mut table = Measured::begin("vulkan pages", is_saved, &[&LABELS[..], &COMPARED].concat());
    let mut is_close = true;
    for (model, of_model, batch) in MODELS {
        for (lever, of_lever, parts) in LEVERS {
            let config = format!(
                "{of_model}\n{of_lever}\nmemory.micro_batch = {}\ndevice.devices = 'vulkan:0'\n\
                 train = {{ batch = {batch}, steps = 8, seed = 0 }}",
                batch / parts
            );
            let compared =
                compare(lavapipe, &config).map_err(|error| format!("{model}, {lever}: {error}"))?;
            is_close &= compared.iter().all(|one| one.error() >= -MOST);
            let [reserved, in_use] = compared.map(Compared::cells);
            let labels = [model.to_owned(), lever.to_owned(), batch.to_string()];
            table.add(labels.into_iter().chain(reserved).chain(in_use).collect());
        }
    }
    table.end("vulkan-pages")?;
    Ok(if is_close { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reserved bytes, and bytes in use where they are highest.
fn compare(lavapipe: &Lavapipe, config: &str) -> Result<[Compared; 2], Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let case = folder.path().join("case.toml");
    fs::write(&case, config)?;
    let mut command = lavapipe.start();
    command.current_dir(folder.path()).args(["profile", "--json", "--steps", "2", "--config"]).arg(case);
    let profile = Profile::of(command)?;
    let config = Config::from_toml("case", config)?;
    let session = open_to_plan(config.clone(), &Registry::builtin())?;
    let planned = plan(&session, PlanOptions::default())?;
    let reserved = planned.reserved_peak().unwrap_or_default().get();
    Ok([Compared { planned: reserved, found: profile.reserved }, profile.highest(&planned, &config)?])
}
