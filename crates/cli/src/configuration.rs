use std::path::Path;

use clap::Args;
use oomph_config::{
    Config, ConfigFile, Sources, Value,
    file::{Embedded, resolve},
};
use oomph_runs::{
    RunDirectory,
    state::{Checkpoint, FoundCheckpoint, StateError},
};

use crate::error::CliError;

/// The file of the resolved configuration in a checkpoint and in a run directory.
const CONFIG: &str = "config.toml";

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        [$(Embedded { name: $name, text: include_str!(concat!("../../../configs/", $name)) }),*]
    };
}

/// The built-in configs: all files of `configs/`.
const CONFIGS: &[Embedded] = &embedded![
    "resnet.toml",
    "lstm.toml",
    "lstm-lm.toml",
    "mnist.toml",
    "resnet-folder.toml",
    "resnet18-cifar10.toml",
    "resnet50-imagenet.toml",
    "transfer.toml",
    "ddp.toml",
    "dp.toml",
    "model.toml",
    "pipeline.toml",
    "synthetic-resnet50.toml",
    "tune-digits.toml",
    "tune-photos.toml",
];

/// The configuration of a command.
#[derive(Args, Debug)]
pub(crate) struct ConfigArguments {
    /// Config file: a path, a name in configs/, or a built-in config [default: resnet.toml]
    #[arg(long, value_name = "NAME")]
    pub(crate) config: Option<String>,
    /// Override a key of the config, as in `--set train.batch=64`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

/// The devices of a command and their memory limit.
#[derive(Args, Debug)]
pub(crate) struct DeviceArguments {
    /// One or more devices: `cpu`, `cuda:0`, `cuda:0,cuda:1` (`device.devices`)
    #[arg(long, value_name = "DEVICES")]
    devices: Option<String>,
    /// Memory limit of each device, such as `24GiB` (`memory.limit`)
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
}

/// How several devices share the work.
#[derive(Args, Debug)]
pub(crate) struct StrategyArguments {
    /// How several devices share the work: `ddp` (the default), `dp`, `model` or `pipeline`
    /// (`device.strategy`)
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
}

impl StrategyArguments {
    pub(crate) fn flag(&self) -> Flag<'_> {
        Flag { name: "--strategy", key: "device.strategy", value: self.strategy.as_deref() }
    }
}

/// The weights file that a command uses instead of a checkpoint.
#[derive(Args, Debug)]
pub(crate) struct WeightsArguments {
    /// A weights file instead of a checkpoint: safetensors, or a state dict of `torch.save`
    /// (`model.weights`)
    #[arg(long, value_name = "FILE")]
    pub(crate) weights: Option<String>,
}

impl WeightsArguments {
    pub(crate) fn flag(&self) -> Flag<'_> {
        Flag { name: "--weights", key: "model.weights", value: self.weights.as_deref() }
    }
}

impl DeviceArguments {
    pub(crate) fn flags(&self) -> [Flag<'_>; 2] {
        [
            Flag { name: "--devices", key: "device.devices", value: self.devices.as_deref() },
            Flag { name: "--memory-limit", key: "memory.limit", value: self.memory_limit.as_deref() },
        ]
    }
}

/// A flag that sets a key.
#[derive(Clone, Copy)]
pub(crate) struct Flag<'a> {
    pub(crate) name: &'static str,
    pub(crate) key: &'a str,
    pub(crate) value: Option<&'a str>,
}

impl ConfigArguments {
    /// The configuration of `--config`, else the default one.
    pub(crate) fn load(&self, flags: &[Flag<'_>]) -> Result<Config, CliError> {
        self.layered(Sources::new(self.file()?), flags)
    }

    /// The configuration of a file that is not named by `--config`.
    pub(crate) fn load_file(&self, file: ConfigFile, flags: &[Flag<'_>]) -> Result<Config, CliError> {
        self.layered(Sources::new(file), flags)
    }

    /// The file of `--config`, else the default one.
    pub(crate) fn file(&self) -> Result<ConfigFile, CliError> {
        Ok(resolve(self.config.as_deref(), CONFIGS)?)
    }

    /// The checkpoint that `find` returns for the path with its configuration; without a path, the configuration of
    /// `--config` with the checkpoint in its run directory.
    pub(crate) fn load_with_checkpoint(
        &self,
        path: Option<&Path>,
        flags: &[Flag<'_>],
        find: impl Fn(&Path) -> Result<FoundCheckpoint, StateError>,
    ) -> Result<(Config, FoundCheckpoint), CliError> {
        if let Some(path) = path {
            let found = find(path)?;
            return Ok((self.load_for(&found.checkpoint, flags)?, found));
        }
        let config = self.load(flags)?;
        let run = config.run.directory.clone().unwrap_or_else(|| RunDirectory::last(config.name()));
        let found = find(&run).map_err(|error| match error {
            StateError::NotACheckpoint { path: run } => CliError::NoCheckpoint { run },
            error => error.into(),
        });
        Ok((config, found?))
    }

    /// The configuration of `--config`, else that of the checkpoint.
    pub(crate) fn load_for(&self, checkpoint: &Checkpoint, flags: &[Flag<'_>]) -> Result<Config, CliError> {
        if self.config.is_some() {
            return self.load(flags);
        }
        let place = checkpoint.path().join(CONFIG).display().to_string();
        let file = ConfigFile::from_text(place, checkpoint.config()?).stored();
        self.load_of_run(file, checkpoint.run_directory().as_deref(), flags)
    }

    /// The configuration of `--config`, else that of a run without a checkpoint.
    pub(crate) fn load_for_run(&self, run: &Path, flags: &[Flag<'_>]) -> Result<Config, CliError> {
        if self.config.is_some() {
            return self.load(flags);
        }
        self.load_of_run(ConfigFile::read(&run.join(CONFIG))?.stored(), Some(run), flags)
    }

    /// Sets `run.directory` to where the run is now, as it may have been moved or copied.
    fn load_of_run(
        &self,
        file: ConfigFile,
        run: Option<&Path>,
        flags: &[Flag<'_>],
    ) -> Result<Config, CliError> {
        let mut sources = Sources::new(file);
        if let Some(run) = run {
            let directory = Value::from(run.to_string_lossy().into_owned());
            sources = sources.set(&format!("run.directory={directory}"))?;
        }
        self.layered(sources, flags)
    }

    fn layered(&self, mut sources: Sources, flags: &[Flag<'_>]) -> Result<Config, CliError> {
        for assignment in &self.sets {
            sources = sources.set(assignment)?;
        }
        for Flag { name, key, value } in flags {
            if let Some(value) = value {
                sources = sources.flag(name, key, value)?;
            }
        }
        Ok(Config::load(&sources)?)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_config_of_the_repository_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
        let mut there: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".toml"))
            .collect();
        let mut embedded: Vec<_> = CONFIGS.iter().map(|config| config.name).collect();
        there.sort();
        embedded.sort_unstable();
        assert_eq!(embedded, there);
    }

    #[test]
    fn the_default_config_is_embedded() {
        assert_eq!(CONFIGS[0].name, oomph_config::file::DEFAULT_CONFIG);
    }
}
