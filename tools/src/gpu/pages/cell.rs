//! A training of the grid: what its plan predicts, and what the simulated driver and the pools tell.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::UNIX_EPOCH,
};

use oomph_advice::planning::{PlanOptions, plan};
use oomph_config::Config;
use oomph_core::Bytes;
use oomph_timeline::Timeline;
use oomph_trainer::{Registry, open_to_plan, profile::PlannedBoundaries};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::grid::{Card, Cell};
use crate::gpu::Simulation;

/// Predictions, and what they are compared with.
pub(super) struct Outcome {
    /// The most bytes that the driver gave.
    pub(super) reserved: Compared,
    /// Bytes in use, by the pools, at the stage or phase of a step where they are highest.
    pub(super) in_use: Compared,
}

/// A prediction, and the truth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    pub(super) planned: u64,
    pub(super) found: u64,
}

impl Compared {
    /// The error of the prediction, as a share of the truth.
    pub(super) fn error(self) -> f64 {
        self.planned as f64 / self.found as f64 - 1.0
    }
}

/// A place where a step's memory is read: a phase, and a stage within it that has just ended. Without a stage, the phase
/// has ended.
type Place = (String, String);

/// What a training was measured. It is kept: a change of the planner's rules changes no measurement.
#[derive(Serialize, Deserialize)]
struct Truth {
    /// The program, the card and the configuration.
    of: [String; 3],
    /// The memory that the card had free.
    limit: u64,
    /// The most bytes that the driver gave.
    peak: u64,
    /// Bytes in use, by the pools.
    readings: Vec<(Place, u64)>,
}

impl Cell {
    /// Measures the training, unless an earlier run of the same program did, and plans it.
    pub(super) fn compare(&self, simulation: &Simulation) -> Result<Outcome, Box<dyn Error>> {
        let Truth { limit, peak, readings, .. } = self.truth(simulation)?;
        let planned = self.planned(Bytes::new(limit))?;
        let (place, found) = readings.into_iter().max_by_key(|(_, bytes)| *bytes).ok_or("no reading")?;
        let level = PlannedBoundaries::of(&planned).bytes(&place.0, &place.1);
        let level = level.ok_or_else(|| format!("the plan has no {} {}", place.0, place.1))?;
        let reserved = planned.reserved_peak().unwrap_or_default().get();
        Ok(Outcome {
            reserved: Compared { planned: reserved, found: peak },
            in_use: Compared { planned: level.get(), found },
        })
    }

    fn truth(&self, simulation: &Simulation) -> Result<Truth, Box<dyn Error>> {
        let kept = self.kept(simulation)?;
        let of = [program(&simulation.setup.oomph)?, self.card.name.to_owned(), self.config()];
        let known = fs::read(&kept).ok().and_then(|text| serde_json::from_slice::<Truth>(&text).ok());
        if let Some(known) = known.filter(|known| known.of == of) {
            return Ok(known);
        }
        let folder = tempfile::tempdir()?;
        let Trained { limit, peak } = Trained::of(simulation, self.card, &self.config(), folder.path())?;
        let readings = readings(self.command(simulation, folder.path()))?;
        let truth = Truth { of, limit, peak, readings };
        fs::write(kept, serde_json::to_vec_pretty(&truth)?)?;
        Ok(truth)
    }

    /// The file of what was measured.
    fn kept(&self, simulation: &Simulation) -> Result<PathBuf, Box<dyn Error>> {
        let folder = simulation.setup.folder.join("pages");
        fs::create_dir_all(&folder)?;
        let [model, card, lever, _] = self.label();
        Ok(folder.join(format!("{model}; {card}; {lever}.json")))
    }

    /// The profile of two steps.
    fn command(&self, simulation: &Simulation, folder: &Path) -> Command {
        let mut command = self.card.command(simulation);
        command.args(["profile", "--json", "--steps", "2", "--devices", "cuda:0", "--config"]);
        command.arg(folder.join("case.toml"));
        command
    }

    /// The plan of this tree, for a card with so much free memory.
    fn planned(&self, limit: Bytes) -> Result<Timeline, Box<dyn Error>> {
        let config = format!("{}\ndevice.devices = 'cuda:0'", self.config());
        let session = open_to_plan(Config::from_toml("case", &config)?, &Registry::builtin())?;
        Ok(plan(&session.with_limits(vec![limit]), PlanOptions::default())?)
    }
}

impl Card {
    /// A start of oomph on this card, which counts launches.
    pub(crate) fn command(&self, simulation: &Simulation) -> Command {
        let mut command = simulation.command(&simulation.setup.folder.join("cache"));
        command.env("CUDA_SIM_CARDS", self.model).env("CUDA_SIM_MODE", "count");
        if let Some(memory) = self.memory {
            command.env("CUDA_SIM_MEMORY", format!("{}MiB", memory.get() >> 20));
        }
        command
    }
}

/// A training that came to its end.
pub(crate) struct Trained {
    /// The memory that the card had free.
    limit: u64,
    /// The most bytes that the driver gave.
    peak: u64,
}

impl Trained {
    /// Trains on a card in `folder`.
    ///
    /// # Errors
    /// The error of the training.
    pub(crate) fn of(
        simulation: &Simulation,
        card: &Card,
        config: &str,
        folder: &Path,
    ) -> Result<Self, Box<dyn Error>> {
        let (case, run, report) = (folder.join("case.toml"), folder.join("run"), folder.join("report.json"));
        fs::write(&case, config)?;
        // Left by the training before.
        let _ = fs::remove_dir_all(&run);
        let mut command = card.command(simulation);
        command.env("CUDA_SIM_REPORT", &report);
        command.args(["train", "--quiet", "--no-plan-check", "--devices", "cuda:0", "--config"]).arg(case);
        let directory = format!("run.directory={}", run.display());
        for setting in [&*directory, "run.save_every=never", "run.tensorboard=false"] {
            command.args(["--set", setting]);
        }
        let output = command.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let report: Value = serde_json::from_str(&fs::read_to_string(report)?)?;
        let metrics = fs::read_to_string(run.join("metrics.jsonl"))?;
        let started: Value = serde_json::from_str(metrics.lines().next().unwrap_or_default())?;
        let limit = started["limit_bytes"].as_u64().ok_or("the run has no limit")?;
        let peak = report["cards"][0]["peak_allocated_bytes"].as_u64().ok_or("the report has no peak")?;
        Ok(Self { limit, peak })
    }
}

/// The program's length and time: what tells one build from another.
fn program(path: &Path) -> Result<String, Box<dyn Error>> {
    let file = fs::metadata(path)?;
    let seconds = file.modified()?.duration_since(UNIX_EPOCH)?.as_secs();
    Ok(format!("{} bytes of {seconds}", file.len()))
}

/// Bytes in use with their padding at each place, by the pools.
fn readings(mut profile: Command) -> Result<Vec<(Place, u64)>, Box<dyn Error>> {
    let output = profile.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let profile: Value = serde_json::from_slice(&output.stdout)?;
    let boundaries = profile["boundaries"].as_array().ok_or("the profile has no boundaries")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let bytes = |value: &Value| value.as_u64().unwrap_or(0);
    let readings = boundaries.iter().map(|boundary| {
        let place = (text(&boundary["phase"]), text(&boundary["stage"]));
        (place, bytes(&boundary["in_use_bytes"]) + bytes(&boundary["padding_bytes"]))
    });
    Ok(readings.collect())
}
