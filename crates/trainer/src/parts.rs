use std::{fmt, path::PathBuf, sync::Arc};

use oomph_config::{Config, ConfigError};
use oomph_core::{SampleSpec, is_within};
use oomph_data::{DataError, LoaderOptions, OpenContext, OpenObserver, OpenSource, Source};
use oomph_model::{Architecture, Summary, summarize};

use crate::SessionError;

/// What a configuration names, its settings read and nothing opened: see [`Registry::read`](crate::Registry::read).
pub struct Parts {
    /// The model, without parameters.
    pub architecture: Architecture,
    /// How batches are loaded.
    pub loader: LoaderOptions,
    /// The file of weights that a new model starts from: `model.weights`.
    pub weights: Option<PathBuf>,
    /// The stages, and groups of them, that are not trained: `model.freeze`.
    pub(crate) frozen: Vec<String>,
    pub(crate) reader: Box<dyn OpenSource + Send + Sync>,
    pub(crate) observer: Option<Arc<OpenObserver>>,
}

impl Parts {
    /// Opens the data, and tells whom the registry knows what of it takes long.
    ///
    /// # Errors
    /// Data that is missing or not laid out as expected.
    pub fn open_source(&self, config: &Config) -> Result<Arc<dyn Source>, DataError> {
        let context = OpenContext::new(cache_dir(), config.train.seed);
        self.reader.open(&match &self.observer {
            Some(observer) => context.with_observer(observer.clone()),
            None => context,
        })
    }

    /// The layers of the model for a batch of such samples, with `model.freeze` held against them.
    ///
    /// # Errors
    /// Where the model cannot take the samples, and where what is to be frozen is not there, or all there is.
    pub fn summary(&self, config: &Config, spec: &SampleSpec, batch: usize) -> Result<Summary, SessionError> {
        let summary = summarize(&self.architecture, spec, batch)?;
        let stages: Vec<&str> = summary.stages().map(|row| row.name.as_str()).collect();
        check_names(config, "model.freeze", &self.frozen, &stages)?;
        if summary.frozen_parameters > 0 && summary.frozen_parameters == summary.parameters {
            return Err(config
                .invalid("model.freeze", "at least one stage with parameters that is trained")
                .into());
        }
        Ok(summary)
    }
}

/// Refuses names of stages, and of groups of them, that the model does not have.
pub(crate) fn check_names(
    config: &Config,
    key: &str,
    named: &[String],
    stages: &[&str],
) -> Result<(), ConfigError> {
    if named.iter().all(|name| stages.iter().any(|stage| is_within(stage, name))) {
        return Ok(());
    }
    // `layer1` before `layer1.0`.
    let mut allowed: Vec<&str> = Vec::new();
    for stage in stages {
        let group = stage.split('.').next().unwrap_or(stage);
        allowed.extend([group, stage].into_iter().filter(|name| !allowed.contains(name)).collect::<Vec<_>>());
    }
    allowed.dedup();
    Err(config.not_allowed(key, allowed))
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("architecture", &self.architecture).finish_non_exhaustive()
    }
}

/// Where results that took long to compute are kept between runs: `$XDG_CACHE_HOME/oomph` or `~/.cache/oomph`.
pub fn cache_dir() -> PathBuf {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .and_then(absolute)
        .or_else(home)
        .unwrap_or_else(std::env::temp_dir)
        .join("oomph")
}
