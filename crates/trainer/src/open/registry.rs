use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use oomph_config::{Config, ConfigError, DeviceName, Section};
use oomph_core::TargetSpec;
use oomph_data::{LoaderOptions, OpenEvent, OpenObserver, OpenSource};
use oomph_model::{Architecture, Kernels, lora::Lora};

use oomph_engine::task::{Classification, MultiLabel, Regression, Task, default_task};

use super::Components;

type ReadModel = dyn Fn(&Section) -> Result<Architecture, ConfigError> + Send + Sync;
type ReadSource = dyn Fn(&Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> + Send + Sync;
type ReadTask = dyn Fn(&Config) -> Result<Arc<dyn Task>, ConfigError> + Send + Sync;

/// Models, data sources and tasks by their names in a configuration.
///
/// A user's binary registers its own beside oomph's; every command then knows them.
///
/// ```
/// use oomph_model::{Architecture, Stages};
/// use oomph_trainer::Registry;
///
/// let registry = Registry::builtin().with_model("mine", |settings| {
///     let hidden = settings.integer("hidden", 64, 1..)?;
///     Ok(Architecture::new("mine", move |_spec, _init| {
///         let _ = hidden;
///         Ok(Stages::new())
///     }))
/// });
/// assert!(registry.models().any(|name| name == "mine"));
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    models: BTreeMap<String, Arc<ReadModel>>,
    sources: BTreeMap<String, Arc<ReadSource>>,
    tasks: BTreeMap<String, Arc<ReadTask>>,
    observer: Option<Arc<OpenObserver>>,
}

impl Registry {
    /// An empty registry.
    pub fn empty() -> Self {
        Self::default()
    }

    /// A registry of oomph's own models (`resnet18` … `resnet152`, `lstm`, `lstm-lm`, `gru`, `gru-lm`, `gpt`, `vit`),
    /// sources (`digits`, `folder`, `cifar10`, `idx`, `csv`, `synthetic`, `text`) and tasks (`classification`,
    /// `multi-label`, `regression`).
    pub fn builtin() -> Self {
        let resnets = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152"];
        let registry = resnets
            .into_iter()
            .fold(Self::empty(), |registry, name| registry.with_model(name, oomph_model::resnet));
        registry
            .with_model("lstm", oomph_model::recurrent::lstm)
            .with_model("lstm-lm", oomph_model::recurrent::lstm_lm)
            .with_model("gru", oomph_model::recurrent::gru)
            .with_model("gru-lm", oomph_model::recurrent::gru_lm)
            .with_model("gpt", oomph_model::gpt)
            .with_model("vit", oomph_model::vit)
            .with_source("digits", oomph_data::digits)
            .with_source("folder", oomph_data::folder)
            .with_source("cifar10", oomph_data::cifar10)
            .with_source("idx", oomph_data::idx)
            .with_source("csv", oomph_data::csv)
            .with_source("synthetic", oomph_data::synthetic)
            .with_source("text", oomph_data::text)
            .with_task("classification", |config| {
                let label_smoothing = config.train.label_smoothing;
                Ok(Arc::new(Classification { label_smoothing, lean: lean(config), weights: None }))
            })
            .with_task("multi-label", |config| {
                let label_smoothing = config.train.label_smoothing;
                Ok(Arc::new(MultiLabel { label_smoothing, lean: lean(config), weights: None }))
            })
            .with_task("regression", |config| {
                config.has_no_effect("train.label_smoothing", "regression has no classes");
                Ok(Arc::new(Regression))
            })
    }

    /// Adds a model, or replaces the one of that name. `read` reads `[model]`.
    #[must_use]
    pub fn with_model(
        mut self,
        name: impl Into<String>,
        read: impl Fn(&Section) -> Result<Architecture, ConfigError> + Send + Sync + 'static,
    ) -> Self {
        self.models.insert(name.into(), Arc::new(read));
        self
    }

    /// Adds a data source, or replaces the one of that name. `read` reads `[data]`.
    #[must_use]
    pub fn with_source(
        mut self,
        name: impl Into<String>,
        read: impl Fn(&Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> + Send + Sync + 'static,
    ) -> Self {
        self.sources.insert(name.into(), Arc::new(read));
        self
    }

    /// Adds a task, or replaces the one of that name, for `train.task`.
    #[must_use]
    pub fn with_task(
        mut self,
        name: impl Into<String>,
        read: impl Fn(&Config) -> Result<Arc<dyn Task>, ConfigError> + Send + Sync + 'static,
    ) -> Self {
        self.tasks.insert(name.into(), Arc::new(read));
        self
    }

    /// Reports downloads to `observer` while data is opened. Without an observer, nothing is reported.
    #[must_use]
    pub fn with_open_observer(mut self, observer: impl Fn(&OpenEvent<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// The names of the models.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        names(&self.models)
    }

    /// The names of the data sources.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        names(&self.sources)
    }

    /// Reads the settings of the model and of the data source, and checks that every key is known and every name is
    /// registered. Nothing on disk is opened but the file that `model.config` names.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn read(&self, config: &Config) -> Result<Components, ConfigError> {
        let weights = config.model.optional_string("weights")?.map(PathBuf::from);
        let frozen = config.model.strings("freeze", &[])?;
        let lora = Lora::read(&config.model)?;
        let components = Components {
            architecture: find(&self.models, &config.model, "name")?(&config.model)?
                .with_frozen(frozen.clone())
                .with_lora(lora),
            weights,
            frozen,
            reader: find(&self.sources, &config.data, "source")?(&config.data)?,
            loader: LoaderOptions::read(&config.data)?,
            observer: self.observer.clone(),
        };
        config.check_all_read()?;
        match &config.train.task {
            Some(name) if !self.tasks.contains_key(name) => Err(self.unknown_task(config)),
            _ => Ok(components),
        }
    }

    /// The task that the configuration names, or the one that goes with the target.
    pub(crate) fn task(&self, config: &Config, target: &TargetSpec) -> Result<Arc<dyn Task>, ConfigError> {
        let name = config.train.task.as_deref().unwrap_or(default_task(target));
        match self.tasks.get(name) {
            Some(read) => read(config),
            None => Err(self.unknown_task(config)),
        }
    }

    fn unknown_task(&self, config: &Config) -> ConfigError {
        config.not_allowed("train.task", names(&self.tasks))
    }
}

/// The kernels of a loss; `None` if it is composed from Burn's operations.
fn lean(config: &Config) -> Option<Kernels> {
    let kernels = match config.device.devices[0] {
        DeviceName::Cpu => Kernels::Cpu,
        DeviceName::Cuda(_) | DeviceName::Vulkan(_) => Kernels::Gpu,
    };
    config.memory.lean.then_some(kernels)
}

fn find<'a, T: ?Sized>(
    known: &'a BTreeMap<String, Arc<T>>,
    settings: &Section,
    key: &str,
) -> Result<&'a Arc<T>, ConfigError> {
    // A missing name and an unknown name are different errors.
    let expected = || names(known).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let name = settings.required_string(key, &format!("one of {}", expected()))?;
    known.get(&name).ok_or_else(|| settings.not_allowed(key, names(known)))
}

/// The names in natural order: `resnet18` before `resnet101`.
fn names<T: ?Sized>(known: &BTreeMap<String, Arc<T>>) -> impl Iterator<Item = &str> {
    let mut names: Vec<_> = known.keys().map(String::as_str).collect();
    names.sort_by_key(|name| {
        let stem = name.trim_end_matches(|last: char| last.is_ascii_digit());
        (stem, name.len(), *name)
    });
    names.into_iter()
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("models", &self.models.keys())
            .field("sources", &self.sources.keys())
            .field("tasks", &self.tasks.keys())
            .finish_non_exhaustive()
    }
}
