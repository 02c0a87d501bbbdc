//! The directory of a run: who holds it, what is in it.

mod curves;
mod differences;
mod directory;
mod error;
mod log_lines;
mod measured;
mod summary;

pub use curves::{EvaluationPoint, RunCurves, TrainingPoint};
pub use differences::{Difference, ValueRuns, differences};
pub use directory::RunDirectory;
pub use error::RunError;
pub use summary::{RunEvaluation, RunStatus, RunSummary};
pub(crate) use summary::{read_log, started_in};

use std::path::Path;

use serde_json::{Value, json};

/// The file of weights that a model started from.
#[derive(Clone, Copy, Debug)]
pub struct WeightsFile<'a> {
    /// The file.
    pub path: &'a Path,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: &'a str,
}

/// Where and by what a run was made, for `environment.json`.
pub fn environment(device: &str, weights: Option<WeightsFile<'_>>) -> Value {
    let machine = oomph_memory::machine();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "oomph_version": env!("CARGO_PKG_VERSION"),
        "burn_version": "0.22.0-pre.3",
        "command": std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        "process": std::process::id(),
        "started_unix_seconds": std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs()),
        "host": host_name(),
        "system": format!("{} {}", std::env::consts::OS, kernel.trim()),
        "architecture": std::env::consts::ARCH,
        "processor": machine.processor,
        "cores": machine.cores,
        "memory_bytes": machine.memory_bytes,
        "device": device,
        "weights": weights.map(|weights| json!({ "path": weights.path, "sha256": weights.sha256 })),
    })
}

/// What this machine is called; empty where it does not say.
pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}
