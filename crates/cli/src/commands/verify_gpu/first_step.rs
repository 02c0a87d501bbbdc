//! The time up to the end of the first step, with and without compiled kernels.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
};

use oomph_config::{Config, DeviceName};
use oomph_trainer::cache_dir;
use serde_json::{Value, json};

use super::{
    figures::{CheckError, Figures},
    runner::Runner,
    trainings::Training,
};
use crate::{
    error::CliError,
    numbers::{plural, step_time},
    probe::Measured,
};

pub(super) fn check(training: &Training, runner: &Runner<'_>) -> Result<Figures, CheckError> {
    let config = runner.fitting(training)?;
    let cache = EmptyCache::create()?;
    let cold = FirstStep::of(runner, &config, &cache)?;
    let warm = FirstStep::of(runner, &config, &cache)?;
    Ok(Figures {
        passes: true,
        limit: None,
        finding: format!("{}; again {}", cold.text(), warm.text()),
        values: json!({ "batch": config.train.batch, "cold": cold.values(), "warm": warm.values() }),
    })
}

/// A first step in a process of its own.
struct FirstStep {
    measured: Measured,
    /// Kernels that were compiled; `None` if the device does not count them.
    compiled_kernels: Option<u64>,
}

impl FirstStep {
    fn of(runner: &Runner<'_>, config: &Config, cache: &EmptyCache) -> Result<Self, CheckError> {
        let measured = runner.measured(config, 1, &cache.variables())?;
        let is_counted = runner.device != DeviceName::Cpu;
        let compiled_kernels = is_counted.then_some(measured.compiled_kernels);
        Ok(Self { measured, compiled_kernels })
    }

    /// From the configuration to the end of the step, plans left out.
    fn seconds(&self) -> f64 {
        self.measured.opening_seconds + self.measured.first_step_seconds
    }

    fn text(&self) -> String {
        let kernels = self.compiled_kernels.map(|kernels| {
            let kernels = plural(usize::try_from(kernels).unwrap_or(usize::MAX), "compiled kernel");
            format!(", {kernels}")
        });
        format!("{}{}", step_time(self.seconds()), kernels.unwrap_or_default())
    }

    fn values(&self) -> Value {
        json!({
            "seconds": self.seconds(),
            "opening_seconds": self.measured.opening_seconds,
            "first_step_seconds": self.measured.first_step_seconds,
            "compiled_kernels": self.compiled_kernels,
        })
    }
}

/// A folder without compiled kernels, beside the user's cache. It is removed on drop.
struct EmptyCache(PathBuf);

impl EmptyCache {
    fn create() -> Result<Self, CliError> {
        let folder = cache_dir().join(format!("verify-gpu-{}", process::id()));
        let refused = |source: io::Error| CliError::File { path: folder.clone(), source };
        fs::create_dir_all(cache_dir()).map_err(refused)?;
        fs::create_dir(&folder).map_err(refused)?;
        Ok(Self(folder))
    }

    /// The variables that make a child use it: for oomph's compiled kernels, and for those of NVIDIA's driver.
    fn variables(&self) -> [(&'static str, PathBuf); 2] {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        [("XDG_CACHE_HOME", absolute(&self.0)), ("CUDA_CACHE_PATH", absolute(&self.0.join("driver")))]
    }
}

impl Drop for EmptyCache {
    fn drop(&mut self) {
        // Kernels that stay behind take some MiB, which is no error.
        let _ = fs::remove_dir_all(&self.0);
    }
}
