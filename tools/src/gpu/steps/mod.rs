//! Counts what a training step asks of a GPU, and times the first step, on a simulated card that counts launches.
//!
//! ```text
//! cargo xtask gpu steps --save
//! ```
//!
//! The times are of the host alone: on the simulated card a kernel takes no time. A cold run finds no compiled kernel, and a
//! warm run those of the cold one. Counts of one step are the difference between a training of 13 steps and one of 3,
//! divided by 10.
//!
//! A second table has the bytes that kernels read and write: the buffers of each launch, once, as the simulated driver
//! counts them. `--kernels` prints them by kernel. `tools/gpu_steps_pytorch.py` puts PyTorch's counts beside them.
//!
//! ```text
//! cargo xtask gpu steps --sectors --save
//! ```
//!
//! With `--sectors` the tool checks this count instead: it computes a short training, records which sectors of memory each
//! kernel touches, and compares.

mod bytes;
mod sectors;

use std::{error::Error, fs, path::Path, process::ExitCode};

use bytes::Bytes;
use oomph_cuda_sim::report::{CardReport, Report};
use serde_json::Value;

use super::Simulation;
use crate::{
    Outcome,
    measured::{Measured, without_save},
};

/// The trainings, with their names.
const CASES: [(&str, &str); 5] = [
    (
        "ResNet-18, digits",
        "model = { name = 'resnet18', stem = 'small', width = 16 }\ndata.source = 'digits'\noptimizer.momentum = 0.9",
    ),
    (
        "ResNet-18, CIFAR",
        "model = { name = 'resnet18', stem = 'small' }
         data = { source = 'synthetic', height = 32, width = 32 }
         optimizer.momentum = 0.9",
    ),
    (
        "ResNet-50, 224², bf16",
        "model.name = 'resnet50'
         data = { source = 'synthetic', height = 224, width = 224, classes = 1000, train_samples = 256, test_samples = 8 }
         memory.precision = 'bf16'
         optimizer.momentum = 0.9
         train.batch = 8",
    ),
    (
        "LSTM 96, digits",
        "model = { name = 'lstm', hidden = 96, layers = 2 }
         data = { source = 'digits', layout = 'rows' }
         optimizer.name = 'adamw'",
    ),
    (
        "LSTM 128 → 256, 64 steps",
        "model = { name = 'lstm', hidden = 256 }
         data = { source = 'synthetic', kind = 'sequence', steps = 64, features = 128 }
         optimizer.name = 'adamw'",
    ),
];

/// What of a report is counted by step, with the title of its column.
const COUNTS: [(&str, Count); 4] = [
    (">launches", |card| card.launches),
    (">copies in", |card| card.copies_to_device),
    (">waits", |card| card.synchronisations),
    (">allocations", |card| card.allocations),
];

/// A count of a report.
type Count = fn(&CardReport) -> u64;

/// The steps of the shorter and of the longer training whose difference is counted.
const STEPS: [usize; 2] = [3, 13];

/// Runs the tool.
pub(super) fn run(simulation: &Simulation, arguments: &[String]) -> Outcome {
    let (words, is_saved) = without_save(arguments);
    let [by_kernel, by_sectors] =
        ["--kernels", "--sectors"].map(|option| words.iter().any(|word| word == option));
    if by_sectors {
        return sectors::run(simulation, is_saved);
    }
    let words: Vec<_> = words.iter().filter(|word| *word != "--kernels").collect();
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(&***word));
    let trainings = CASES.into_iter().filter(|(name, _)| is_wanted(name));
    let trainings: Vec<_> =
        trainings.map(|(name, config)| Training::of(simulation, name, config)).collect::<Result<_, _>>()?;
    let mut titles = vec!["training", ">kernels", ">first step, cold", ">first step, warm"];
    titles.extend(COUNTS.map(|(title, _)| title));
    titles.push(">host time of a step");
    let mut table = Measured::begin("gpu steps", is_saved, &titles);
    trainings.iter().for_each(|training| table.add(training.row()));
    table.end("gpu-steps")?;
    let titles = [&["training"][..], &bytes::TITLES].concat();
    let mut table = Measured::begin("gpu steps", is_saved, &titles);
    for training in &trainings {
        let bytes = training.bytes()?;
        table.add([vec![training.name.to_owned()], bytes.cells(training.parameters).to_vec()].concat());
        if by_kernel {
            bytes.print_kernels();
        }
    }
    table.end("gpu-bytes")?;
    Ok(ExitCode::SUCCESS)
}

/// A training of [`CASES`], counted.
struct Training {
    name: &'static str,
    parameters: f64,
    /// One step without compiled kernels, and one with them.
    cold: Counted,
    warm: Counted,
    /// Of [`STEPS`].
    short: Counted,
    long: Counted,
}

impl Training {
    fn of(simulation: &Simulation, name: &'static str, config: &str) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("case.toml"), config)?;
        let count =
            |steps| Counted::of(simulation, folder.path(), "count", &[&format!("train.steps={steps}")]);
        let [short, long] = STEPS;
        let [cold, warm] = [count(1)?, count(1)?];
        // The second step has kernels that the first one has not. This run compiles them.
        count(short)?;
        Ok(Self {
            name,
            cold,
            warm,
            short: count(short)?,
            long: count(long)?,
            parameters: parameters(simulation, folder.path())?,
        })
    }

    fn row(&self) -> Vec<String> {
        let [short, long] = [&self.short, &self.long];
        let steps = (STEPS[1] - STEPS[0]) as f64;
        let of_a_step = |count: Count| (count(&long.card) as f64 - count(&short.card) as f64) / steps;
        let mut row = vec![
            self.name.to_owned(),
            self.cold.card.modules.to_string(),
            format!("{:.1} s", self.cold.seconds),
            format!("{:.1} s", self.warm.seconds),
        ];
        row.extend(COUNTS.map(|(_, count)| format!("{:.0}", of_a_step(count))));
        row.push(format!("{:.0} ms", (long.seconds - short.seconds) / steps * 1e3));
        row
    }

    fn bytes(&self) -> Result<Bytes, String> {
        Bytes::between(&self.short.card, &self.long.card, (STEPS[1] - STEPS[0]) as f64)
    }
}

/// The parameters of the model in `case.toml`.
fn parameters(simulation: &Simulation, folder: &Path) -> Result<f64, Box<dyn Error>> {
    let mut command = simulation.command(&folder.join("cache"));
    let output = command.args(["summary", "--json", "--config"]).arg(folder.join("case.toml")).output()?;
    let summary: Value = serde_json::from_slice(&output.stdout)?;
    let rows = summary["rows"].as_array().ok_or("`summary --json` has no rows")?;
    Ok(rows.iter().filter(|row| row["depth"] == 0).filter_map(|row| row["parameters"].as_f64()).sum())
}

/// A training, counted.
struct Counted {
    card: CardReport,
    /// From the start of the training to its last step.
    seconds: f64,
}

impl Counted {
    /// Trains on an H100 with further settings. Trainings of one folder share compiled kernels.
    fn of(
        simulation: &Simulation,
        folder: &Path,
        mode: &str,
        settings: &[&str],
    ) -> Result<Self, Box<dyn Error>> {
        let (run, report) = (folder.join("run"), folder.join("report.json"));
        // Left by the training before.
        let _ = fs::remove_dir_all(&run);
        let mut command = simulation.command(&folder.join("cache"));
        command.env("CUDA_SIM_CARDS", "H100").env("CUDA_SIM_MODE", mode).env("CUDA_SIM_REPORT", &report);
        command.args(["train", "--quiet", "--devices", "cuda:0", "--config"]).arg(folder.join("case.toml"));
        let directory = format!("run.directory={}", run.display());
        let always = [
            &*directory,
            "run.log_every=1000",
            "run.save_every=never",
            "train.eval_every=never",
            "train.seed=0",
        ];
        always.iter().chain(settings).for_each(|setting| {
            command.args(["--set", setting]);
        });
        let output = command.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let report: Report = serde_json::from_str(&fs::read_to_string(report)?)?;
        let card = report.cards.into_iter().next().ok_or("the report has no card")?;
        let metrics = fs::read_to_string(run.join("metrics.jsonl"))?;
        let events = metrics.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        let last = events.iter().rfind(|event| event["event"] == "step");
        let seconds = last.and_then(|step| step["seconds"].as_f64()).ok_or("no step was logged")?;
        Ok(Self { card, seconds })
    }
}
