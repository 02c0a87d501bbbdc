//! Trains on simulated GPUs, whose kernels are computed, and compares losses and gradients with those of the processor.
//!
//! ```text
//! cargo xtask gpu check            all cases
//! cargo xtask gpu check lstm bf16  the cases whose name has one of the words
//! ```

mod gradients;
mod losses;

use std::{error::Error, fs, path::Path, process::ExitCode, time::Instant};

use super::Simulation;
use crate::Outcome;

/// A training on simulated cards, and what it is compared with.
struct Case {
    name: &'static str,
    config: &'static str,
    /// The simulated cards, and the devices that train.
    cards: &'static str,
    devices: &'static str,
    /// Settings of the training on the GPU and of the one that it is compared with.
    settings: &'static [&'static str],
    against: Against,
}

/// What losses are compared with.
enum Against {
    /// The processor with the same settings: they differ by this share of a loss at most.
    Processor(f64),
    /// The processor in 16 bits, whose losses differ from those of 32 bits. The GPU's may differ from 32 bits by twice as much,
    /// and by this share of a loss.
    ItsOwnDeviation(f64),
    /// One card of the same machine.
    OneCard(f64),
    /// The processor's gradients of one step: the norm of the difference is this share of their norm at most.
    Gradients(f64),
}

const RESNET: &str = "
    model = { name = 'resnet18', stem = 'small', width = 8 }
    data = { source = 'digits', workers = 0, last_batch = 'drop' }
    train = { steps = 8, batch = 16, seed = 0, eval_every = 'never' }
    optimizer = { name = 'sgd', lr = 5e-3, momentum = 0.9, weight_decay = 5e-4 }
";

const LSTM: &str = "
    model = { name = 'lstm', hidden = 24, layers = 2 }
    data = { source = 'digits', layout = 'rows', workers = 0, last_batch = 'drop' }
    train = { steps = 20, batch = 16, seed = 0, eval_every = 'never' }
    optimizer = { name = 'adamw', lr = 4e-3, clip_global_norm = 1.0 }
";

const LANGUAGE: &str = "
    model = { name = 'lstm-lm', hidden = 32, layers = 1 }
    data = { source = 'text', path = 'README.md', level = 'char', steps = 16 }
    train = { steps = 20, batch = 8, seed = 0, eval_every = 'never' }
    optimizer = { name = 'adam', lr = 6e-3 }
";

/// The losses of ResNets differ widely after more steps in 16 bits, on the processor too.
const FEW_STEPS_FP16: &[&str] = &["memory.precision=fp16", "train.steps=3", "optimizer.lr=1e-3"];
const FEW_STEPS_BF16: &[&str] = &["memory.precision=bf16", "train.steps=3", "optimizer.lr=1e-3"];

/// The case of a training on one card.
const fn case(
    name: &'static str,
    config: &'static str,
    cards: &'static str,
    settings: &'static [&'static str],
    against: Against,
) -> Case {
    Case { name, config, cards, devices: "cuda:0", settings, against }
}

/// A training on two cards, whose losses are those of one.
const fn two_cards(name: &'static str, config: &'static str, settings: &'static [&'static str]) -> Case {
    Case { name, config, cards: "2xT4", devices: "cuda:0,cuda:1", settings, against: Against::OneCard(1e-5) }
}

/// A training on four cards, whose losses are those of one.
const fn four_cards(name: &'static str, config: &'static str, settings: &'static [&'static str]) -> Case {
    let devices = "cuda:0,cuda:1,cuda:2,cuda:3";
    Case { name, config, cards: "4xT4", devices, settings, against: Against::OneCard(1e-5) }
}

/// The gradients of one step in 32 bits. The step is so long that the weights behind it are the gradients.
const fn gradients(name: &'static str, config: &'static str) -> Case {
    let settings = &[
        "train.steps=1",
        "optimizer.name=sgd",
        "optimizer.lr=1e6",
        "optimizer.momentum=0",
        "optimizer.weight_decay=0",
    ];
    case(name, config, "T4", settings, Against::Gradients(1e-3))
}

const CASES: [Case; 19] = [
    case("resnet fp32", RESNET, "T4", &[], Against::Processor(1e-3)),
    case("lstm fp32", LSTM, "T4", &[], Against::Processor(1e-3)),
    case("language model fp32", LANGUAGE, "T4", &[], Against::Processor(1e-3)),
    case("resnet fp16", RESNET, "T4", FEW_STEPS_FP16, Against::ItsOwnDeviation(2e-3)),
    case("lstm bf16", LSTM, "A100", &["memory.precision=bf16"], Against::ItsOwnDeviation(2e-3)),
    case("resnet bf16", RESNET, "A100", FEW_STEPS_BF16, Against::ItsOwnDeviation(5e-3)),
    case("resnet recompute", RESNET, "T4", &["memory.recompute=stages"], Against::Processor(1e-3)),
    case("lstm micro-batches", LSTM, "T4", &["memory.micro_batch=4"], Against::Processor(1e-3)),
    case("lstm Burn's layers", LSTM, "T4", &["memory.lean=false", "train.steps=3"], Against::Processor(1e-3)),
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
    let is_wanted = |case: &&Case| words.is_empty() || words.iter().any(|word| case.name.contains(&**word));
    let mut failed = 0;
    for case in CASES.iter().filter(is_wanted) {
        let start = Instant::now();
        let outcome = case.difference(simulation);
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(difference) => println!("{}  largest difference {difference:.1e}  {seconds:.0} s", case.name),
            Err(error) => {
                failed += 1;
                println!("{}  failed: {error}", case.name);
            }
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Case {
    /// The largest difference of losses, or the difference of gradients by norm, as a share.
    fn difference(&self, simulation: &Simulation) -> Result<f64, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("case.toml"), self.config)?;
        let losses = |devices: &str, settings: &[&str]| {
            self.train(simulation, folder.path(), devices, settings)?;
            losses::of(&folder.path().join("run"))
        };
        match self.against {
            Against::Processor(most) => {
                losses::close(&losses(self.devices, self.settings)?, &losses("cpu", self.settings)?, most)
            }
            Against::OneCard(most) => {
                let alone: Vec<&str> =
                    self.settings.iter().copied().filter(|text| !text.starts_with("device.")).collect();
                losses::close(&losses(self.devices, self.settings)?, &losses("cuda:0", &alone)?, most)
            }
            Against::ItsOwnDeviation(more) => {
                let on_gpu = losses(self.devices, self.settings)?;
                let wide = losses("cpu", &[self.settings, &["memory.precision=fp32"]].concat())?;
                let deviations = losses::shares(&losses("cpu", self.settings)?, &wide);
                let largest = deviations.into_iter().fold(0.0, f64::max);
                losses::close(&on_gpu, &wide, 2.0 * largest + more)
            }
            Against::Gradients(most) => {
                let gradients = |devices: &str| {
                    self.train(simulation, folder.path(), devices, self.settings)?;
                    gradients::of(&folder.path().join("run"))
                };
                gradients::close(&gradients(self.devices)?, &gradients("cpu")?, most)
            }
        }
    }

    /// Trains in `folder/run`.
    fn train(
        &self,
        simulation: &Simulation,
        folder: &Path,
        devices: &str,
        settings: &[&str],
    ) -> Result<(), Box<dyn Error>> {
        let run = folder.join("run");
        // Left by the training before.
        let _ = fs::remove_dir_all(&run);
        let mut command = simulation.command(&simulation.setup.folder.join("cache"));
        command.env("CUDA_SIM_CARDS", self.cards).env("CUDA_SIM_MODE", "compute");
        command.args(["train", "--quiet", "--devices", devices, "--config"]).arg(folder.join("case.toml"));
        let directory = format!("run.directory={}", run.display());
        let own = [&*directory, "run.log_every=1", "run.save_every=never"];
        own.iter().chain(settings).for_each(|setting| {
            command.args(["--set", setting]);
        });
        let output = command.output()?;
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
    }
}
