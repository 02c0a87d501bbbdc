use std::{fmt, path::PathBuf, sync::Arc};

use oomph_config::Config;
use oomph_data::{DataError, LoaderOptions, OpenContext, OpenObserver, OpenSource, Source};
use oomph_model::Architecture;

/// What a configuration names, its settings read and nothing opened: see [`Registry::read`](crate::Registry::read).
pub struct Parts {
    /// The model, without parameters.
    pub architecture: Architecture,
    /// How batches are loaded.
    pub loader: LoaderOptions,
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
