//! Trains on simulated GPUs, whose kernels are computed, and compares the losses of every step with those of the processor.
//!
//! ```text
//! cargo xtask gpu check            all cases
//! cargo xtask gpu check lstm bf16  the cases whose name has one of the words
//! ```

use std::{
    error::Error,
    fs,
    path::Path,
    process::{Command, ExitCode},
    time::Instant,
};

use serde_json::Value;

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

const CASES: [Case; 13] = [
    case("resnet fp32", RESNET, "T4", &[], Against::Processor(1e-3)),
    case("lstm fp32", LSTM, "T4", &[], Against::Processor(1e-3)),
    case("language model fp32", LANGUAGE, "T4", &[], Against::Processor(1e-3)),
    case("resnet fp16", RESNET, "T4", &["memory.precision=fp16"], Against::ItsOwnDeviation(2e-3)),
    case("lstm bf16", LSTM, "A100", &["memory.precision=bf16"], Against::ItsOwnDeviation(2e-3)),
    case("resnet bf16", RESNET, "A100", &["memory.precision=bf16"], Against::ItsOwnDeviation(5e-3)),
    case("resnet recompute", RESNET, "T4", &["memory.recompute=stages"], Against::Processor(1e-3)),
    case("lstm micro-batches", LSTM, "T4", &["memory.micro_batch=4"], Against::Processor(1e-3)),
    case("lstm Burn's layers", LSTM, "T4", &["memory.lean=false", "train.steps=3"], Against::Processor(1e-3)),
    two_cards("lstm ddp", LSTM, &["device.strategy=ddp"]),
    two_cards("lstm dp", LSTM, &["device.strategy=dp"]),
    two_cards("lstm model", LSTM, &["device.strategy=model"]),
    two_cards("lstm pipeline", LSTM, &["device.strategy=pipeline", "memory.micro_batch=4"]),
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
    /// The largest difference of losses, as a share.
    fn difference(&self, simulation: &Simulation) -> Result<f64, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("case.toml");
        fs::write(&config, self.config)?;
        let train = |devices: &str, settings: &[&str]| {
            let mut command = simulation.command(&simulation.setup.folder.join("cache"));
            command.env("CUDA_SIM_CARDS", self.cards).env("CUDA_SIM_MODE", "compute");
            losses(command, folder.path(), devices, settings)
        };
        let on_gpu = train(self.devices, self.settings)?;
        match self.against {
            Against::Processor(most) => close(&on_gpu, &train("cpu", self.settings)?, most),
            Against::OneCard(most) => {
                let alone: Vec<&str> =
                    self.settings.iter().copied().filter(|text| !text.starts_with("device.")).collect();
                close(&on_gpu, &train("cuda:0", &alone)?, most)
            }
            Against::ItsOwnDeviation(more) => {
                let wide = train("cpu", &[self.settings, &["memory.precision=fp32"]].concat())?;
                let narrow = train("cpu", self.settings)?;
                let deviations = shares(&narrow, &wide);
                let largest = deviations.into_iter().fold(0.0, f64::max);
                close(&on_gpu, &wide, 2.0 * largest + more)
            }
        }
    }
}

/// Trains in `folder` and gives the loss of each step.
fn losses(
    mut command: Command,
    folder: &Path,
    devices: &str,
    settings: &[&str],
) -> Result<Vec<f64>, Box<dyn Error>> {
    let run = folder.join("run");
    // Left by the training before.
    let _ = fs::remove_dir_all(&run);
    command.args(["train", "--quiet", "--devices", devices, "--config"]).arg(folder.join("case.toml"));
    command.args(["--set", "run.log_every=1", "--set", "run.save_every=never", "--set"]);
    command.arg(format!("run.directory={}", run.display()));
    settings.iter().for_each(|setting| {
        command.args(["--set", setting]);
    });
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let metrics = fs::read_to_string(run.join("metrics.jsonl"))?;
    let events: Vec<Value> = metrics.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let steps = events.iter().filter(|event| event["event"] == "step");
    Ok(steps.filter_map(|event| event["loss"].as_f64()).collect())
}

/// The largest difference, unless one exceeds what is allowed.
fn close(found: &[f64], right: &[f64], most: f64) -> Result<f64, Box<dyn Error>> {
    if found.len() != right.len() || found.is_empty() {
        return Err(format!("{} losses instead of {}", found.len(), right.len()).into());
    }
    let mut largest = 0.0;
    for (step, share) in shares(found, right).into_iter().enumerate() {
        if share.is_nan() || share > most {
            let [found, right] = [found, right].map(|losses| losses[step]);
            return Err(format!("step {}: loss {found} instead of {right}", step + 1).into());
        }
        largest = share.max(largest);
    }
    Ok(largest)
}

/// The differences of losses, as shares.
fn shares(found: &[f64], right: &[f64]) -> Vec<f64> {
    found.iter().zip(right).map(|(found, right)| (found / right - 1.0).abs()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_that_differ_are_found() {
        let right = [2.0, 1.0];
        let of = |found: &[f64]| close(found, &right, 0.01).map_err(|error| error.to_string());
        assert!(of(&[2.002, 1.0]).unwrap() < 0.0011);
        assert_eq!(of(&[2.0, 1.1]).unwrap_err(), "step 2: loss 1.1 instead of 1");
        assert!(of(&[2.0, f64::NAN]).unwrap_err().contains("NaN"));
        assert_eq!(of(&[2.0]).unwrap_err(), "1 losses instead of 2");
        assert!(of(&[]).is_err());
    }
}
