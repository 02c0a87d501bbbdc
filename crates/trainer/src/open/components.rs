use std::{fmt, path::PathBuf, sync::Arc};

use oomph_config::Config;
use oomph_core::SampleSpec;
use oomph_data::{DataError, LoaderOptions, OpenContext, OpenObserver, OpenSource, Source, SourceRecord};
use oomph_engine::session::check_names;
use oomph_model::{Architecture, Summary, summarize};

use super::SessionError;

/// The components that a configuration names, with their settings read and nothing opened: see [`Registry::read`](crate::Registry::read).
pub struct Components {
    /// The model, without parameters.
    pub architecture: Architecture,
    /// How batches are loaded.
    pub loader: LoaderOptions,
    /// The file of weights that a new model starts from: `model.weights`.
    pub weights: Option<PathBuf>,
    /// Frozen stages and groups of stages: `model.freeze`.
    pub(crate) frozen: Vec<String>,
    pub(crate) reader: Box<dyn OpenSource + Send + Sync>,
    pub(crate) observer: Option<Arc<OpenObserver>>,
}

impl Components {
    /// Opens the data. The registry's observer gets the downloads.
    ///
    /// # Errors
    /// Data that is missing or not laid out as expected.
    pub fn open_source(&self, config: &Config) -> Result<Arc<dyn Source>, DataError> {
        self.open_source_as(None, config)
    }

    /// Opens the data to plan with it. Where it is not there, and the settings tell its shape, a stand-in serves.
    ///
    /// # Errors
    /// As [`open_source`](Self::open_source).
    pub fn source_to_plan(&self, config: &Config) -> Result<Arc<dyn Source>, DataError> {
        let declared =
            |absent: DataError| self.reader.declared().filter(|_| absent.is_absent()).ok_or(absent);
        self.open_source(config).or_else(declared)
    }

    /// Opens the data for a model that was trained on the recorded data. Otherwise as [`open_source`](Self::open_source).
    pub(crate) fn open_source_as(
        &self,
        record: Option<SourceRecord>,
        config: &Config,
    ) -> Result<Arc<dyn Source>, DataError> {
        let mut context = OpenContext::new(cache_dir(), config.train.seed);
        context.free_bytes = oomph_memory::default_limit().map(|limit| limit.bytes);
        if let Some(observer) = &self.observer {
            context = context.with_observer(observer.clone());
        }
        if let Some(record) = record {
            context = context.with_record(record);
        }
        self.reader.open(&context)
    }

    /// Summarizes the model for a batch of such samples, and checks `model.freeze`.
    ///
    /// # Errors
    /// Where the model cannot take the samples. Where `model.freeze` names an unknown stage, or all trained stages.
    pub fn summary(&self, config: &Config, spec: &SampleSpec, batch: usize) -> Result<Summary, SessionError> {
        let summary = summarize(&self.architecture, spec, batch)?;
        let stages: Vec<&str> = summary.stages().map(|row| row.name.as_str()).collect();
        check_names(config, "model.freeze", &self.frozen, &stages)?;
        let trained = self.architecture.lora().map_or(&[][..], |lora| &lora.train);
        check_names(config, "model.lora.train", trained, &stages)?;
        if summary.frozen_parameters > 0 && summary.frozen_parameters == summary.parameters {
            return Err(config
                .invalid("model.freeze", "at least one stage with parameters that is trained")
                .into());
        }
        Ok(summary)
    }
}

impl fmt::Debug for Components {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Components").field("architecture", &self.architecture).finish_non_exhaustive()
    }
}

/// The directory of results that are slow to compute: `$XDG_CACHE_HOME/oomph` or `~/.cache/oomph`.
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
