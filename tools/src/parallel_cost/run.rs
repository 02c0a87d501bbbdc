//! Trainings by `oomph`, and the figures of their events.

use std::{error::Error, path::Path, process::Command};

use serde_json::Value;

use crate::{measured, program};

/// The figures of one training.
pub(crate) struct Run {
    /// Trainable elements.
    pub(crate) parameters: u64,
    pub(crate) samples_per_second: f64,
    /// The peak in use of each device.
    pub(crate) peak_bytes: Vec<f64>,
    /// The idle share of each device in forward and backward; empty where no stage is on another device.
    pub(crate) idle_shares: Vec<f64>,
    /// Seconds of all-reduces under way, and seconds in which the step waited for them.
    pub(crate) all_reduce_seconds: [f64; 2],
}

/// Trains `recipe` once with each of `variants` (settings as for `--set`), and repeats that `runs` times: the runs of
/// each variant.
pub(crate) fn alternated(
    recipe: &str,
    variants: &[Vec<String>],
    runs: usize,
) -> Result<Vec<Vec<Run>>, Box<dyn Error>> {
    let mut all: Vec<Vec<Run>> = variants.iter().map(|_| Vec::new()).collect();
    let oomph = program::oomph()?;
    for _ in 0..runs {
        for (settings, runs) in variants.iter().zip(&mut all) {
            runs.push(train(&oomph, recipe, settings)?);
        }
    }
    Ok(all)
}

/// The median of `of` over all runs.
pub(crate) fn median(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    measured::median(runs.iter().map(of).collect())
}

fn train(oomph: &Path, recipe: &str, settings: &[String]) -> Result<Run, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("case.toml"), recipe)?;
    let sets = settings.iter().flat_map(|setting| ["--set", setting]);
    let output = Command::new(oomph)
        .args(["train", "--config", "case.toml", "--json"])
        .args(sets)
        .current_dir(folder.path())
        .output()?;
    if !output.status.success() {
        return Err(format!("{settings:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let events = String::from_utf8(output.stdout)?;
    let event = |line: Option<&str>| serde_json::from_str::<Value>(line.unwrap_or_default());
    let (started, done) = (event(events.lines().next())?, event(events.lines().last())?);
    let devices = done["devices"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_each = |key: &str| devices.iter().filter_map(|device| device[key].as_f64()).collect::<Vec<_>>();
    let reduced = devices.first().map(|device| &device["all_reduce_seconds"]);
    Ok(Run {
        parameters: started["parameters"].as_u64().unwrap_or_default(),
        samples_per_second: done["samples_per_second"].as_f64().unwrap_or_default(),
        peak_bytes: match devices {
            [] => done["peak_in_use_bytes"].as_f64().into_iter().collect(),
            _ => of_each("peak_in_use_bytes"),
        },
        idle_shares: of_each("idle_share"),
        all_reduce_seconds: [0, 1].map(|of| reduced.and_then(|seconds| seconds[of].as_f64()).unwrap_or(0.0)),
    })
}
