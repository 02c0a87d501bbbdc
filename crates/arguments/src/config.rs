//! The configuration of a command.

use std::path::{Path, PathBuf};

use clap::Args;
use oomph_config::{Config, ConfigError, ConfigFile, Sources, Value, file::resolve};
use oomph_runs::{
    RunDirectory,
    state::{Checkpoint, FoundCheckpoint, StateError},
};

use crate::{configs::CONFIGS, error::ArgumentsError, flags::Flag};

/// The file of the resolved configuration in a checkpoint and in a run directory.
const CONFIG: &str = "config.toml";

/// The configuration of a command.
#[derive(Args, Clone, Debug)]
pub struct ConfigArguments {
    /// Config file: a path, a name in configs/, or a built-in config [default: resnet.toml]
    #[arg(long, value_name = "NAME")]
    pub config: Option<String>,
    /// Override a key of the config, as in `--set train.batch=64`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

/// The configuration of a command whose only positional argument it is: `oomph train lstm` is `oomph train --config lstm`.
#[derive(Args, Clone, Debug)]
pub struct NamedConfigArguments {
    /// Config file, as after --config
    #[arg(value_name = "CONFIG", conflicts_with = "config")]
    named_config: Option<String>,
    #[command(flatten)]
    arguments: ConfigArguments,
}

impl NamedConfigArguments {
    /// The same, with the name where `--config` has it.
    pub fn named(&self) -> ConfigArguments {
        let ConfigArguments { config, sets } = self.arguments.clone();
        ConfigArguments { config: self.named_config.clone().or(config), sets }
    }
}

impl ConfigArguments {
    /// The configuration of `--config`, else the default one.
    ///
    /// # Errors
    /// There is no such file, or a setting is refused.
    pub fn load(&self, flags: &[Flag<'_>]) -> Result<Config, ArgumentsError> {
        let file = self.file().map_err(|error| match error {
            ConfigError::Directory { path } if RunDirectory::is_run(&path) => ArgumentsError::IsARun { path },
            error => error.into(),
        });
        self.layered(Sources::new(file?), flags)
    }

    /// The configuration of a file that is not named by `--config`.
    ///
    /// # Errors
    /// A setting is refused.
    pub fn load_file(&self, file: ConfigFile, flags: &[Flag<'_>]) -> Result<Config, ArgumentsError> {
        self.layered(Sources::new(file), flags)
    }

    /// `command` with these arguments and `flags` as a user types them, the config by its name alone:
    /// `oomph train lstm --set train.batch=8 --devices cpu`.
    pub fn after(&self, command: &str, flags: &[Flag<'_>]) -> String {
        let sets = self.sets.iter().flat_map(|set| ["--set".to_owned(), for_shell(set)]);
        let config = self.config.iter().map(|config| for_shell(config));
        let typed = flags.iter().filter_map(|flag| Some([flag.name.to_owned(), for_shell(flag.value?)]));
        let words = [command.to_owned()].into_iter().chain(config).chain(sets).chain(typed.flatten());
        words.collect::<Vec<_>>().join(" ")
    }

    /// The file of `--config`, else the default one.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn file(&self) -> Result<ConfigFile, ConfigError> {
        resolve(self.config.as_deref(), CONFIGS)
    }

    /// The same with another config.
    pub(crate) fn with_name(&self, name: &str) -> Self {
        Self { config: Some(name.to_owned()), sets: self.sets.clone() }
    }

    /// Whether `path` names a config, where a run or a checkpoint may stand too. A path that ends in `.toml` names one, there
    /// or not. So does the name of a config, unless a file has it.
    pub fn is_named_by(&self, path: &Path) -> bool {
        let is_file = path.extension().is_some_and(|ending| ending == "toml") && !path.is_dir();
        let is_name = || (!path.exists() || path.is_dir()) && resolve(path.to_str(), CONFIGS).is_ok();
        !Checkpoint::is_named(path) && path.to_str().is_some() && (is_file || is_name())
    }

    /// The newest run of the config that `path` names; `None` where it names none.
    ///
    /// # Errors
    /// There is no such config, it is wrong, or it has no run.
    pub fn run_of(&self, path: &Path) -> Result<Option<PathBuf>, ArgumentsError> {
        if !self.is_named_by(path) {
            return Ok(None);
        }
        let file = resolve(path.to_str(), CONFIGS)?;
        let name = file.stem();
        let config = match self.layered(Sources::new(file.clone()), &[]) {
            // The training named its data on the command line. Where it is does not matter here.
            Err(ArgumentsError::Config(ConfigError::Missing { key, .. })) if key == "data.path" => {
                self.layered(Sources::new(file).set("data.path='.'")?, &[])
            }
            config => config,
        };
        let run = config?.run.directory.unwrap_or_else(|| RunDirectory::last(&name));
        if RunDirectory::is_run(&run) { Ok(Some(run)) } else { Err(ArgumentsError::NoCheckpoint { run }) }
    }

    /// The checkpoint at a path, for its weights, with its configuration, where a config stands for its newest run; without a
    /// path, the configuration of `--config` with the checkpoint in its run directory.
    ///
    /// # Errors
    /// There is no checkpoint, or a setting is refused.
    pub fn load_with_checkpoint(
        &self,
        path: Option<&Path>,
        flags: &[Flag<'_>],
    ) -> Result<(Config, FoundCheckpoint), ArgumentsError> {
        if let Some(path) = path {
            let found = Checkpoint::find_weights(self.run_of(path)?.as_deref().unwrap_or(path))?;
            return Ok((self.load_for(&found.checkpoint, flags)?, found));
        }
        let config = self.load(flags)?;
        let run = config.run.directory.clone().unwrap_or_else(|| RunDirectory::last(config.name()));
        let found = Checkpoint::find_weights(&run).map_err(|error| match error {
            StateError::NotACheckpoint { path: run } => ArgumentsError::NoCheckpoint { run },
            error => error.into(),
        });
        Ok((config, found?))
    }

    /// The configuration of `--config`, else that of the checkpoint.
    ///
    /// # Errors
    /// The checkpoint is damaged, or a setting is refused.
    pub fn load_for(&self, checkpoint: &Checkpoint, flags: &[Flag<'_>]) -> Result<Config, ArgumentsError> {
        if self.config.is_some() {
            return self.load(flags);
        }
        let place = checkpoint.path().join(CONFIG).display().to_string();
        let file = ConfigFile::from_text(place, checkpoint.config()?).stored();
        self.load_of_run(file, checkpoint.run_directory().as_deref(), flags)
    }

    /// The configuration of `--config`, else that of a run without a checkpoint.
    ///
    /// # Errors
    /// The run's configuration cannot be read, or a setting is refused.
    pub fn load_for_run(&self, run: &Path, flags: &[Flag<'_>]) -> Result<Config, ArgumentsError> {
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
    ) -> Result<Config, ArgumentsError> {
        let mut sources = Sources::new(file);
        if let Some(run) = run {
            let directory = Value::from(run.to_string_lossy().into_owned());
            sources = sources.set(&format!("run.directory={directory}"))?;
        }
        self.layered(sources, flags)
    }

    fn layered(&self, mut sources: Sources, flags: &[Flag<'_>]) -> Result<Config, ArgumentsError> {
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

/// A word in single quotes, if a shell would read it otherwise.
pub fn for_shell(word: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "-_./=:,+@%".contains(char);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
