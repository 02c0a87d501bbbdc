mod chain;
mod devices;
mod error;
mod replicas;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use burn::tensor::Device;
use oomph_config::{Config, ConfigFile, DeviceName, Interval, MicroBatch, Recompute, Sources};
use oomph_core::{Bytes, SampleSpec, Split};
use oomph_data::{DataError, LastBatch, LoaderOptions, Order, Source};
use oomph_model::{
    Architecture, Init, Kernels, ModelError, Policy, Stages, Summary, SummaryRow, check_training, summarize,
};
use oomph_plan::Backend;

pub use self::devices::default_limit;
pub(crate) use self::devices::threads_of_each;
use self::devices::{limits, start_threads};
pub use self::error::{Leaves, SessionError};
use crate::{
    DeviceError, Parts, Registry, Schedule, Task, TrainError, backend,
    device_memory::install_pool,
    open_device,
    parallel::Replicas,
    parts::check_names,
    planning::{Choice, Occasion, choose, recomputed},
    state::EpochCut,
};

/// A configuration with everything it names found, opened and checked against each other.
pub struct Session {
    /// The configuration.
    pub config: Config,
    /// The model, without parameters.
    pub architecture: Architecture,
    /// The data.
    pub source: Arc<dyn Source>,
    /// How output and target are compared.
    pub task: Arc<dyn Task>,
    /// How batches are loaded.
    pub loader: LoaderOptions,
    /// Where it computes, off autodiff.
    pub device: Device,
    /// What the device may use, where that is known: as configured, or what the machine leaves. Of several devices the
    /// least that any of them may.
    pub limit_bytes: Option<Bytes>,
    /// What each of several devices may use, where that is not the same for all.
    limits: Vec<Bytes>,
    /// The file of weights that a new model starts from.
    pub weights: Option<PathBuf>,
    /// The names of the model's stages.
    pub(crate) stages: Vec<String>,
    /// How many of them are frozen before the first that is trained.
    pub(crate) leading_frozen: usize,
    /// All devices of this process, where this is one of several replicas.
    all_devices: Option<Vec<DeviceName>>,
    /// Those that train together, of which this is one.
    pub(crate) replicas: Replicas,
    /// What `auto` came to, whenever it was asked.
    choices: Mutex<HashMap<Occasion, Choice>>,
}

impl Session {
    /// Finds and opens what the configuration names, and checks that it goes together: one batch is sent through the
    /// model on a device that records operations and executes none.
    ///
    /// # Errors
    /// The first thing that is not as it must be, with the place in the configuration where there is one.
    pub fn open(config: Config, registry: &Registry) -> Result<Self, SessionError> {
        Self::opened(config, registry, Parts::open_source)
    }

    /// The same on other data than the configuration names: to ask a trained model about samples of one's own. Nothing
    /// of the configured data is looked for.
    ///
    /// # Errors
    /// As those of [`open`](Self::open) that are not about the data.
    pub fn open_on(
        source: Arc<dyn Source>,
        config: Config,
        registry: &Registry,
    ) -> Result<Self, SessionError> {
        Self::opened(config, registry, |_, _| Ok(source))
    }

    fn opened(
        config: Config,
        registry: &Registry,
        source: impl FnOnce(&Parts, &Config) -> Result<Arc<dyn Source>, DataError>,
    ) -> Result<Self, SessionError> {
        let device = |config: &Config| -> Result<_, SessionError> {
            start_threads(config)?;
            let name = config.device.devices[0];
            let device = open_device(name)?;
            install_pool(&device, config.memory.pool)
                .map_err(|reason| DeviceError::Pools { device: name, reason })?;
            Ok((device, limits(config)))
        };
        Self::assemble(config, registry, device, source)
    }

    /// As [`open`](Self::open), without a device: to plan for one that this machine need not have. Nothing can be
    /// trained in it.
    ///
    /// # Errors
    /// As those of [`open`](Self::open) that are not about the device.
    pub fn open_to_plan(config: Config, registry: &Registry) -> Result<Self, SessionError> {
        let device = |config: &Config| Ok((Device::flex(), config.memory.limit.into_iter().collect()));
        Self::assemble(config, registry, device, Parts::open_source)
    }

    fn assemble(
        config: Config,
        registry: &Registry,
        device: impl FnOnce(&Config) -> Result<(Device, Vec<Bytes>), SessionError>,
        source: impl FnOnce(&Parts, &Config) -> Result<Arc<dyn Source>, DataError>,
    ) -> Result<Self, SessionError> {
        let parts = registry.read(&config)?;
        let (device, limits) = device(&config)?;
        let source = source(&parts, &config)?;
        let task = registry.task(&config, &source.spec().target)?;
        task.check(&source.spec().target)?;
        let batch = config.train.eval_batch.unwrap_or(config.train.batch);
        let summary = parts.summary(&config, source.spec(), batch)?;
        let Parts { architecture, loader, weights, .. } = parts;
        let stages = summary.stages().map(|row| row.name.clone()).collect();
        let leading_frozen = summary.stages().take_while(|row| row.is_frozen).count();
        let choices = Mutex::default();
        let session = Self {
            config,
            architecture,
            source,
            task,
            loader,
            device,
            limit_bytes: None,
            limits: Vec::new(),
            weights,
            stages,
            leading_frozen,
            all_devices: None,
            replicas: Replicas::alone(),
            choices,
        }
        .with_limits(limits);
        session.check_stages()?;
        Ok(session)
    }

    /// Refuses names of stages that the model does not have.
    fn check_stages(&self) -> Result<(), SessionError> {
        let Recompute::Named(named) = &self.config.memory.recompute else { return Ok(()) };
        let stages: Vec<&str> = self.stages.iter().map(String::as_str).collect();
        Ok(check_names(&self.config, "memory.recompute", named, &stages)?)
    }

    /// Checks what only training needs: that each part of the data makes a batch, and that the model can be trained on
    /// the largest and the smallest micro-batch of an epoch. Nothing is executed for it.
    ///
    /// # Errors
    /// [`SessionError::NoBatches`], [`SessionError::Rest`], or the model's own.
    pub fn check_training(&self) -> Result<(), SessionError> {
        self.check_batches(Split::Train, self.train_order().batches(), self.config.train.batch)?;
        if self.config.train.eval_every != Interval::Never {
            self.check_batches(Split::Test, self.eval_order().batches(), self.eval_batch())?;
        }
        let check = |batch| check_training(&self.architecture, self.spec(), batch);
        self.check_micro_batches()?;
        let micro_batch = self.micro_batch();
        check(micro_batch).map_err(|source| match self.config.device.devices.len() > 1 {
            true => SessionError::Rest { samples: micro_batch, leaves: Leaves::Devices, source },
            false => source.into(),
        })?;
        for (rest, leaves) in self.rests() {
            check(rest).map_err(|source| SessionError::Rest { samples: rest, leaves, source })?;
        }
        Ok(())
    }

    /// The smaller micro-batches that every batch, and the last batch of an epoch, leave over.
    fn rests(&self) -> Vec<(usize, Leaves)> {
        let (whole, micro_batch) = (self.config.train.batch, self.micro_batch());
        if let Some(rests) = self.rests_of_rounds() {
            return rests;
        }
        let batches = [(whole, Leaves::EveryBatch), (self.train_order().len() % whole, Leaves::LastBatch)];
        // Of replicas some have a sample more than others.
        let shares = |samples: usize| [self.share_of(samples), samples / self.world_size()];
        let rest = |(samples, leaves)| shares(samples).map(|share| (share % micro_batch, leaves));
        batches.into_iter().flat_map(rest).filter(|(rest, _)| *rest > 0).collect()
    }

    fn check_batches(&self, split: Split, batches: usize, batch: usize) -> Result<(), SessionError> {
        if batches > 0 {
            return Ok(());
        }
        Err(SessionError::NoBatches { split, samples: self.source.len(split), batch })
    }

    /// The name of the data source, as in `data.source`.
    pub fn source_name(&self) -> String {
        // It was read when the source was found, so it is there.
        self.config.data.string("source", "").unwrap_or_default()
    }

    /// What a sample looks like.
    pub fn spec(&self) -> &SampleSpec {
        self.source.spec()
    }

    /// The layers of the model for a batch of any size.
    ///
    /// # Errors
    /// Where the model cannot take the samples.
    pub fn summary(&self, batch: usize) -> Result<Summary, ModelError> {
        summarize(&self.architecture, self.spec(), batch)
    }

    /// Makes the model on the autodiff device, drawn from `train.seed`. [`initial_model`](Self::initial_model) has the
    /// weights of `model.weights` too.
    ///
    /// # Errors
    /// Where the architecture refuses.
    pub fn build(&self) -> Result<Stages, ModelError> {
        let device = self.tracked(&self.whole_model_device());
        let init = Init::new(&device, self.config.train.seed);
        self.architecture.build(self.spec(), &init)
    }

    /// The autodiff device of `device`, on which the model is trained.
    pub(crate) fn tracked(&self, device: &Device) -> Device {
        let tracked = device.clone().autodiff();
        match self.config.memory.recompute {
            Recompute::Ops => tracked.gradient_checkpointing(),
            _ => tracked,
        }
    }

    /// The same with some settings changed, keys of `[train]`, `[optimizer]`, `[memory]` or `[run]` with the values that
    /// they are to have: to plan what that would need. Data, model and device stay open.
    ///
    /// # Errors
    /// Where the settings are not valid, or contradict others.
    pub fn varied(&self, settings: &[(String, String)]) -> Result<Self, SessionError> {
        let file = ConfigFile::from_text(self.config.name(), self.config.to_toml());
        let mut sources = Sources::new(file);
        for (key, value) in settings {
            sources = sources.set(&format!("{key}={value}"))?;
        }
        // Of several devices this is one, whatever the configuration names.
        let mut config = Config::load(&sources)?;
        config.device = self.config.device.clone();
        Ok(self.with(config, self.device.clone()))
    }

    /// The same with another configuration and device.
    fn with(&self, config: Config, device: Device) -> Self {
        Self {
            config,
            device,
            architecture: self.architecture.clone(),
            source: self.source.clone(),
            task: self.task.clone(),
            loader: self.loader.clone(),
            limit_bytes: self.limit_bytes,
            limits: self.limits.clone(),
            weights: self.weights.clone(),
            stages: self.stages.clone(),
            leading_frozen: self.leading_frozen,
            all_devices: self.all_devices.clone(),
            replicas: self.replicas.clone(),
            choices: Mutex::default(),
        }
    }

    /// How an epoch is cut into batches.
    pub(crate) fn epoch_cut(&self) -> EpochCut {
        EpochCut {
            batch: self.config.train.batch,
            samples: self.source.len(Split::Train),
            carry: self.source.is_continuous(),
        }
    }

    /// Samples of the largest batch there will be: the configured one, or all there are.
    pub fn largest_train_batch(&self) -> usize {
        self.config.train.batch.min(self.source.len(Split::Train).max(1))
    }

    /// Samples of one forward-backward.
    pub fn micro_batch(&self) -> usize {
        self.micro_batch_of(self.config.train.batch)
    }

    /// Samples of one forward-backward on one device, were the batch of another size.
    pub fn micro_batch_of(&self, batch: usize) -> usize {
        let batch = self.share_of(batch);
        let occasion = Occasion { batch, backend: backend(self), limit_bytes: self.limit_bytes };
        // What a model refuses is told where it is planned or trained.
        self.choice(occasion).map_or(batch, |choice| choice.micro_batch)
    }

    /// How a step is cut: as configured, or what `auto` comes to.
    ///
    /// # Errors
    /// Where the model refuses the batch.
    pub(crate) fn choice(&self, occasion: Occasion) -> Result<Choice, TrainError> {
        let memory = &self.config.memory;
        let is_auto = memory.recompute == Recompute::Auto || memory.micro_batch == Some(MicroBatch::Auto);
        if !is_auto {
            let micro_batch = match memory.micro_batch {
                Some(MicroBatch::Samples(samples)) => samples.min(occasion.batch),
                _ => self.whole_micro_batch(occasion.batch),
            };
            let recompute = recomputed(&memory.recompute, &self.stages);
            return Ok(Choice { micro_batch, recompute });
        }
        // Not held while it is chosen: that plans. A panic leaves choices that are still true.
        let choices = || self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = choices().get(&occasion) {
            return Ok(known.clone());
        }
        let choice = choose(self, occasion)?;
        choices().insert(occasion, choice.clone());
        Ok(choice)
    }

    /// Bytes of each stage's output for so many samples, in the format of activations.
    pub(crate) fn stage_output_bytes(&self, samples: usize) -> Result<Vec<u64>, ModelError> {
        let share = self.policy(backend(self)).dtype().size() as u64;
        let bytes = |row: &SummaryRow| row.output.iter().product::<usize>() as u64 * share;
        Ok(self.summary(samples)?.stages().map(bytes).collect())
    }

    /// How layers compute on the allocator and kernels of `backend`.
    pub fn policy(&self, backend: Backend) -> Policy {
        let memory = &self.config.memory;
        let kernels = match backend {
            Backend::Cpu { .. } => Kernels::Own,
            Backend::Cuda => Kernels::Composed,
        };
        Policy { precision: memory.precision, lean: memory.lean, kernels, recompute: false }
    }

    /// Samples of one forward of evaluation, on one device.
    pub fn eval_batch(&self) -> usize {
        self.config.train.eval_batch.unwrap_or_else(|| self.micro_batch())
    }

    /// The order in which the training data is seen: of several replicas, by this one.
    pub fn train_order(&self) -> Order {
        let train = &self.config.train;
        let samples = self.source.len(Split::Train);
        let order = match self.source.is_continuous() {
            true => Order::streams(samples, train.batch, self.loader.last_batch),
            false => Order::train(samples, train.batch, train.seed, self.loader.last_batch),
        };
        self.sharded(order)
    }

    /// The order in which the held-out data is seen.
    pub fn eval_order(&self) -> Order {
        let samples = self.source.len(Split::Test);
        let batch = self.eval_batch() * self.replicas.world_size();
        let order = match self.source.is_continuous() {
            // In as many streams as one device has, each of which begins without what came before it.
            true => {
                let streams = self.config.train.eval_batch.unwrap_or(batch);
                Order::streams(samples, streams, LastBatch::Keep)
            }
            false => Order::eval(samples, batch),
        };
        self.sharded(order)
    }

    /// What of every batch this replica has.
    fn sharded(&self, order: Order) -> Order {
        order.shard(self.replicas.rank(), self.replicas.world_size())
    }

    /// Optimizer steps of an epoch.
    pub fn steps_per_epoch(&self) -> usize {
        self.train_order().batches()
    }

    /// Optimizer steps of the whole run.
    pub fn steps(&self) -> usize {
        let length = self.config.train.length;
        let by_epochs = length.epochs.map(|epochs| epochs.saturating_mul(self.steps_per_epoch()));
        // The configuration gives at least one of both.
        by_epochs.into_iter().chain(length.steps).min().unwrap_or(0)
    }

    /// The learning rate over the whole run.
    pub fn schedule(&self) -> Schedule {
        let lr = self.config.optimizer.lr;
        Schedule::new(&self.config.schedule, lr, self.steps(), self.steps_per_epoch())
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("architecture", &self.architecture)
            .field("spec", self.spec())
            .finish_non_exhaustive()
    }
}
