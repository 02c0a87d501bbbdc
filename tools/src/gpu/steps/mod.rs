//! Counts what a training step asks of a GPU, and times the first step, on a simulated card that counts launches.
//!
//! ```text
//! cargo xtask gpu steps --save
//! ```
//!
//! The times are of the host alone: on the simulated card a kernel takes no time. A cold run finds no compiled kernel, and a
//! warm run those of the cold one. Counts of one step are the difference between a training of 13 steps and one of 3,
//! divided by 10.

use std::{error::Error, fs, path::Path, process::ExitCode};

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
        "model = { name = 'resnet18', stem = 'small', width = 16 }\ndata.source = 'digits'",
    ),
    (
        "ResNet-18, CIFAR",
        "model = { name = 'resnet18', stem = 'small' }
         data = { source = 'synthetic', height = 32, width = 32 }",
    ),
    (
        "ResNet-50, 224², bf16",
        "model.name = 'resnet50'
         data = { source = 'synthetic', height = 224, width = 224, classes = 1000, train_samples = 256, test_samples = 8 }
         memory.precision = 'bf16'
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
const COUNTS: [(&str, &str); 4] = [
    ("launches", ">launches"),
    ("copies_to_device", ">copies in"),
    ("synchronisations", ">waits"),
    ("allocations", ">allocations"),
];

/// Runs the tool.
pub(super) fn run(simulation: &Simulation, arguments: &[String]) -> Outcome {
    let (words, is_saved) = without_save(arguments);
    let mut titles = vec!["training", ">kernels", ">first step, cold", ">first step, warm"];
    titles.extend(COUNTS.map(|(_, title)| title));
    titles.push(">host time of a step");
    let mut table = Measured::begin("gpu steps", is_saved, &titles);
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(&**word));
    for (name, config) in CASES.into_iter().filter(|(name, _)| is_wanted(name)) {
        table.add(row(simulation, name, config)?);
    }
    table.end("gpu-steps")?;
    Ok(ExitCode::SUCCESS)
}

fn row(simulation: &Simulation, name: &str, config: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("case.toml"), config)?;
    let [cold, warm, short, long] = [1, 1, 3, 13].map(|steps| Counted::of(simulation, folder.path(), steps));
    let [cold, warm, short, long] = [cold?, warm?, short?, long?];
    let of_a_step = |count: &str| (long.count(count) - short.count(count)) / 10.0;
    let mut row = vec![
        name.to_owned(),
        format!("{:.0}", cold.count("modules")),
        format!("{:.1} s", cold.seconds),
        format!("{:.1} s", warm.seconds),
    ];
    row.extend(COUNTS.map(|(count, _)| format!("{:.0}", of_a_step(count))));
    row.push(format!("{:.0} ms", (long.seconds - short.seconds) * 100.0));
    Ok(row)
}

/// A training, counted.
struct Counted {
    report: Value,
    /// From the start of the training to its last step.
    seconds: f64,
}

impl Counted {
    /// Trains `steps` steps on an H100. Trainings of one folder share compiled kernels.
    fn of(simulation: &Simulation, folder: &Path, steps: usize) -> Result<Self, Box<dyn Error>> {
        let (run, report) = (folder.join("run"), folder.join("report.json"));
        // Left by the training before.
        let _ = fs::remove_dir_all(&run);
        let mut command = simulation.command(&folder.join("cache"));
        command.env("CUDA_SIM_CARDS", "H100").env("CUDA_SIM_MODE", "count").env("CUDA_SIM_REPORT", &report);
        command.args(["train", "--quiet", "--devices", "cuda:0", "--config"]).arg(folder.join("case.toml"));
        let directory = format!("run.directory={}", run.display());
        let steps = format!("train.steps={steps}");
        let settings = [
            &*steps,
            &directory,
            "run.log_every=1000",
            "run.save_every=never",
            "train.eval_every=never",
            "train.seed=0",
        ];
        settings.iter().for_each(|setting| {
            command.args(["--set", setting]);
        });
        let output = command.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let report: Value = serde_json::from_str(&fs::read_to_string(report)?)?;
        let metrics = fs::read_to_string(run.join("metrics.jsonl"))?;
        let events = metrics.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        let last = events.iter().rfind(|event| event["event"] == "step");
        let seconds = last.and_then(|step| step["seconds"].as_f64()).ok_or("no step was logged")?;
        Ok(Self { report, seconds })
    }

    fn count(&self, name: &str) -> f64 {
        self.report["cards"][0][name].as_f64().unwrap_or(f64::NAN)
    }
}
