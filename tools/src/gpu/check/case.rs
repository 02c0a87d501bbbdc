//! A training on GPUs, and what its losses or gradients are compared with.

use std::{
    error::Error,
    fs,
    path::Path,
    process::{Command, ExitCode},
    time::Instant,
};

use super::{gradients, losses};
use crate::Outcome;

/// A training on GPUs, and what it is compared with.
pub(crate) struct Case {
    pub(super) name: &'static str,
    pub(super) config: &'static str,
    /// The simulated cards, where there are some, and the devices that train.
    pub(super) cards: &'static str,
    pub(super) devices: &'static str,
    /// Settings of the training on the GPU and of the one that it is compared with.
    pub(super) settings: &'static [&'static str],
    pub(super) against: Against,
}

/// What losses are compared with.
pub(crate) enum Against {
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

pub(crate) const RESNET: &str = "
    model = { name = 'resnet18', stem = 'small', width = 8 }
    data = { source = 'digits', workers = 0, last_batch = 'drop' }
    train = { steps = 8, batch = 16, seed = 0, eval_every = 'never' }
    optimizer = { name = 'sgd', lr = 5e-3, momentum = 0.9, weight_decay = 5e-4 }
";

pub(crate) const LSTM: &str = "
    model = { name = 'lstm', hidden = 24, layers = 2 }
    data = { source = 'digits', layout = 'rows', workers = 0, last_batch = 'drop' }
    train = { steps = 20, batch = 16, seed = 0, eval_every = 'never' }
    optimizer = { name = 'adamw', lr = 4e-3, clip_global_norm = 1.0 }
";

pub(crate) const GRU: &str = "
    model = { name = 'gru', hidden = 24, layers = 2 }
    data = { source = 'digits', layout = 'rows', workers = 0, last_batch = 'drop' }
    train = { steps = 3, batch = 16, seed = 0, eval_every = 'never' }
    optimizer = { name = 'adamw', lr = 4e-3, clip_global_norm = 1.0 }
";

pub(crate) const LANGUAGE: &str = "
    model = { name = 'lstm-lm', hidden = 32, layers = 1 }
    data = { source = 'text', path = 'README.md', level = 'char', steps = 16 }
    train = { steps = 20, batch = 8, seed = 0, eval_every = 'never' }
    optimizer = { name = 'adam', lr = 6e-3 }
";

/// The case of a training on one simulated card.
pub(super) const fn case(
    name: &'static str,
    config: &'static str,
    cards: &'static str,
    settings: &'static [&'static str],
    against: Against,
) -> Case {
    Case { name, config, cards, devices: "cuda:0", settings, against }
}

/// The case of a training on the first Vulkan device.
pub(crate) const fn vulkan(
    name: &'static str,
    config: &'static str,
    settings: &'static [&'static str],
    against: Against,
) -> Case {
    Case { name, config, cards: "", devices: "vulkan:0", settings, against }
}

/// Settings of one step in 32 bits. It is so long that the weights behind it are the gradients.
pub(crate) const ONE_LONG_STEP: &[&str] = &[
    "train.steps=1",
    "optimizer.name=sgd",
    "optimizer.lr=1e6",
    "optimizer.momentum=0",
    "optimizer.weight_decay=0",
];

/// How a GPU multiplies in fp32.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Products {
    /// As the processor.
    Fp32,
    /// On tensor cores, which round factors to 10 bits of mantissa (TF32). bf16 has 7, so losses and gradients are nearer to those in
    /// fp32 than the processor's in bf16.
    Tf32,
}

/// Runs the cases whose name has one of `words`, or all. `start` begins a command of oomph.
pub(crate) fn run(
    cases: &[Case],
    words: &[String],
    products: Products,
    start: &dyn Fn() -> Command,
) -> Outcome {
    let is_wanted = |case: &&Case| words.is_empty() || words.iter().any(|word| case.name.contains(&**word));
    let mut failed = 0;
    for case in cases.iter().filter(is_wanted) {
        let begin = Instant::now();
        let outcome = case.difference(products, start);
        let seconds = begin.elapsed().as_secs_f64();
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

const BF16: &[&str] = &["memory.precision=bf16"];

impl Case {
    /// The largest difference of losses, or the difference of gradients by norm, as a share.
    fn difference(&self, products: Products, start: &dyn Fn() -> Command) -> Result<f64, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("case.toml"), self.config)?;
        let losses = |devices: &str, settings: &[&str]| {
            self.train(start, folder.path(), devices, settings)?;
            losses::of(&folder.path().join("run"))
        };
        match self.against {
            Against::Processor(most) => {
                let (found, right) = (losses(self.devices, self.settings)?, losses("cpu", self.settings)?);
                let limit = match products {
                    Products::Fp32 => most,
                    Products::Tf32 => {
                        let short = losses::shares(&losses("cpu", &[self.settings, BF16].concat())?, &right);
                        short.into_iter().fold(most, f64::max)
                    }
                };
                losses::close(&found, &right, limit)
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
                let gradients = |devices: &str, settings: &[&str]| {
                    self.train(start, folder.path(), devices, settings)?;
                    gradients::of(&folder.path().join("run"))
                };
                let (found, right) =
                    (gradients(self.devices, self.settings)?, gradients("cpu", self.settings)?);
                let limit = match products {
                    Products::Fp32 => most,
                    Products::Tf32 => {
                        let short = gradients("cpu", &[self.settings, BF16].concat())?;
                        gradients::close(&short, &right, f64::INFINITY)?.max(most)
                    }
                };
                gradients::close(&found, &right, limit)
            }
        }
    }

    /// Trains in `folder/run`.
    fn train(
        &self,
        start: &dyn Fn() -> Command,
        folder: &Path,
        devices: &str,
        settings: &[&str],
    ) -> Result<(), Box<dyn Error>> {
        let run = folder.join("run");
        // Left by the training before.
        let _ = fs::remove_dir_all(&run);
        let mut command = start();
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
