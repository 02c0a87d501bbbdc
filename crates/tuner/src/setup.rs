//! What a study is begun with, and its folder.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use oomph_config::{
    Config, ConfigFile,
    sections::tune::{Parallel, Tune},
};
use oomph_core::files::{self, Existing, WriteError};
use oomph_study::Setup;
use serde_json::Value;

use crate::{TuneError, policy::Policy, space::journal_value};

/// Keys that may differ between the workers of a study, or from one day to the next: none changes a result.
const FREE: [&str; 7] = [
    "tune.trials",
    "tune.parallel",
    "tune.lease",
    "tune.checkpoints",
    "memory.limit",
    "data.workers",
    "data.prefetch",
];

/// Sections of which no key changes a result.
const FREE_SECTIONS: [&str; 2] = ["run", "device"];

/// The setup that all workers of a study agree on: its space, and every other setting that decides about results.
pub(crate) fn setup(name: &str, config: &Config, tune: &Tune, policy: &Policy) -> Result<Setup, TuneError> {
    let given = oomph_config::values(config.name(), &config.to_given_toml())?;
    let is_free = |key: &str| {
        let section = key.split_once('.').map_or(key, |(section, _)| section);
        FREE.contains(&key) || FREE_SECTIONS.contains(&section) || key.starts_with("tune.space.")
    };
    let mut settings: BTreeMap<String, Value> = given
        .iter()
        .filter(|(key, _)| !is_free(key))
        .map(|(key, value)| (key.clone(), journal_value(value)))
        .collect();
    if let (true, Parallel::Trials(workers)) = (tune.deterministic, tune.parallel) {
        settings.insert("tune.parallel".into(), workers.into());
    }
    Ok(Setup {
        name: name.to_owned(),
        direction: policy.direction,
        metric: tune.metric.name().to_owned(),
        seed: tune.seed,
        space: policy.space.parameters().to_vec(),
        settings,
    })
}

/// The folder of a study: `study.log`, `config.toml` and `trials/`.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder of a study that exists.
    ///
    /// # Errors
    /// There is no journal in it.
    pub fn open(path: &Path) -> Result<Self, TuneError> {
        let folder = Self { path: path.to_owned() };
        if folder.journal().is_file() { Ok(folder) } else { Err(TuneError::NoStudy { folder: folder.path }) }
    }

    /// Makes the folder of a study, or opens it. The configuration of whoever comes first stays.
    pub(crate) fn make(path: PathBuf, config: &Config) -> Result<Self, TuneError> {
        let folder = Self { path };
        let trials = folder.path.join("trials");
        fs::create_dir_all(&trials).map_err(failed("make", &trials))?;
        let file = folder.config();
        match files::write_file(&file, Existing::Keep, |out| out.write_all(config.to_given_toml().as_bytes()))
        {
            Ok(()) | Err(WriteError::Exists) => Ok(folder),
            Err(WriteError::NotAFile(found)) => {
                let source = std::io::Error::other(format!("it is {found}"));
                Err(failed("write", &file)(source))
            }
            Err(WriteError::Io(source)) => Err(failed("write", &file)(source)),
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The journal.
    pub fn journal(&self) -> PathBuf {
        self.path.join("study.log")
    }

    /// The configuration that the study was begun with.
    pub fn config(&self) -> PathBuf {
        self.path.join("config.toml")
    }

    /// The configuration that the study was begun with, to be loaded.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn config_file(&self) -> Result<ConfigFile, TuneError> {
        Ok(ConfigFile::read(&self.config())?.stored())
    }

    /// The run directory of a trial.
    pub fn trial(&self, number: usize) -> PathBuf {
        self.path.join("trials").join(format!("{number:05}"))
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> TuneError {
    let path = path.to_owned();
    move |source| TuneError::File { action, path, source }
}
