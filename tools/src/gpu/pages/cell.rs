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
use oomph_trainer::{Registry, open_to_plan};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    grid::{Card, Cell},
    profile::{Compared, Place, Profile},
};
use crate::gpu::Simulation;

/// Predictions, and what they are compared with.
pub(super) struct Outcome {
    /// The most bytes that the pools asked the driver for.
    pub(super) reserved: Compared,
    /// Bytes in use, by the pools, at the stage or phase of a step where they are highest.
    pub(super) in_use: Compared,
}

/// What a training was measured. It is kept: a change of the planner's rules changes no measurement.
#[derive(Serialize, Deserialize)]
struct Truth {
    /// The program, the card and the configuration.
    of: [String; 3],
    /// The memory that the card had free.
    limit: u64,
    /// The most bytes that the pools asked the driver for.
    peak: u64,
    /// Bytes in use, by the pools.
    readings: Vec<(Place, u64)>,
}

impl Cell {
    /// Measures the training, unless an earlier run of the same program did, and plans it.
    pub(super) fn compare(&self, simulation: &Simulation) -> Result<Outcome, Box<dyn Error>> {
        let Truth { limit, peak, readings, .. } = self.truth(simulation)?;
        let config = self.read()?;
        let planned = Self::planned(config.clone(), Bytes::new(limit))?;
        let reserved = planned.reserved_peak().unwrap_or_default().get();
        Ok(Outcome {
            reserved: Compared { planned: reserved, found: peak },
            in_use: Profile { readings, reserved }.highest(&planned, &config)?,
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
        let readings = Profile::of(self.command(simulation, folder.path()))?.readings;
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

    /// The configuration on a GPU.
    fn read(&self) -> Result<Config, Box<dyn Error>> {
        Ok(Config::from_toml("case", &format!("{}\ndevice.devices = 'cuda:0'", self.config()))?)
    }

    /// The plan of this tree, for a card with so much free memory.
    fn planned(config: Config, limit: Bytes) -> Result<Timeline, Box<dyn Error>> {
        let session = open_to_plan(config, &Registry::builtin())?;
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
    /// The most bytes that the pools asked the driver for.
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
        let peak = report["cards"][0]["peak_asked_bytes"].as_u64().ok_or("the report has no peak")?;
        Ok(Self { limit, peak })
    }
}

/// The program's length and time: what tells one build from another.
fn program(path: &Path) -> Result<String, Box<dyn Error>> {
    let file = fs::metadata(path)?;
    let seconds = file.modified()?.duration_since(UNIX_EPOCH)?.as_secs();
    Ok(format!("{} bytes of {seconds}", file.len()))
}
