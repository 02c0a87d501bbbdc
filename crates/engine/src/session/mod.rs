//! A resolved configuration with the data, model and devices opened for it.

mod data;
mod devices;
mod outputs;
mod split;

use std::{path::PathBuf, sync::Arc};

use burn::tensor::Device;
use oomph_config::{Change, Config, DeviceName, PipelineSchedule, Recompute, Sharing, sections::fit::Fit};
use oomph_core::{Bytes, SampleSpec, TargetSpec};
use oomph_data::{LoaderOptions, Source};
use oomph_model::{Architecture, Init, Kernels, ModelError, Policy, Stages, Summary, summarize};
use oomph_parallel::PipelineOrder;
use oomph_plan::{Backend, time::DeviceSpeeds};

pub use data::{EpochCut, largest_train_batch, mark_step, steps, steps_per_epoch, train_order};
pub use devices::{backend, bytes_of_smallest, cpus, on_compute_thread, stage_output_bytes, threads_of_each};
pub use outputs::StageOutputs;
pub use split::{ChoiceCache, SplitKey, StepSplit, check_names, fixed_split, recomputed};

use crate::{layout::Scatter, ranks::Replicas, task::Task};

/// A resolved configuration with the data, model and devices that it names, opened and checked against each other.
///
/// A session is plain data: opening, planning and training are functions that take it.
#[derive(Clone)]
pub struct Session {
    /// The configuration.
    pub config: Config,
    /// The model, without parameters.
    pub architecture: Architecture,
    /// The names of the model's stages.
    pub stages: Vec<String>,
    /// The shapes of their outputs.
    pub outputs: StageOutputs,
    /// The number of frozen stages before the first trained stage.
    pub leading_frozen: usize,
    /// Whether the model has running statistics: batch normalisation, whose training depends on the micro-batch.
    pub has_running_statistics: bool,
    /// The file of the weights that a new model starts with.
    pub weights: Option<PathBuf>,
    /// The data.
    pub source: Arc<dyn Source>,
    /// How batches are loaded.
    pub loader: LoaderOptions,
    /// The task that computes the loss.
    pub task: Arc<dyn Task>,
    /// The first device, without autodiff.
    pub device: Device,
    /// The limit, if it is known. With several devices: the smallest limit.
    pub limit_bytes: Option<Bytes>,
    /// The limit of each device, if limits differ; otherwise empty.
    pub limits: Vec<Bytes>,
    /// The ranks that train together, including this one.
    pub replicas: Replicas,
    /// All devices of this process, if several of its ranks are in this process.
    pub process_devices: Option<Vec<DeviceName>>,
    /// How fast the devices are.
    pub speeds: DeviceSpeeds,
    /// The splits that `auto` chose so far.
    pub splits: ChoiceCache<StepSplit>,
    /// The changes that `memory.fit = "auto"` chose so far.
    pub fits: ChoiceCache<Vec<Change>>,
    /// Whether `memory.fit` has chosen: its choice is part of the configuration.
    pub is_fitted: bool,
}

impl Session {
    /// The shapes of inputs and targets.
    pub fn spec(&self) -> &SampleSpec {
        self.source.spec()
    }

    /// The name of the data source, as in `data.source`.
    pub fn source_name(&self) -> String {
        // The name was read when the source was opened, so it is valid.
        self.config.data.string("source", "").unwrap_or_default()
    }

    /// The layers of the model with their output shapes for a batch of `batch` samples.
    ///
    /// # Errors
    /// If the model refuses the samples.
    pub fn summary(&self, batch: usize) -> Result<Summary, ModelError> {
        summarize(&self.architecture, self.spec(), batch)
    }

    /// Builds the model on the autodiff device, randomly initialised from `train.seed`.
    ///
    /// # Errors
    /// If the architecture refuses the samples.
    pub fn build(&self) -> Result<Stages, ModelError> {
        let device = self.tracked(&self.whole_model_device());
        let init = Init::new(&device, self.config.train.seed);
        self.architecture.build(self.spec(), &init)
    }

    /// Builds the model as [`build`](Self::build) does, to be [restored](crate::record::restore_model): its weights have no
    /// values and take no memory until then.
    ///
    /// # Errors
    /// If the architecture refuses the samples.
    pub fn build_to_restore(&self) -> Result<Stages, ModelError> {
        let device = self.tracked(&self.whole_model_device());
        self.architecture.build(self.spec(), &Init::to_be_replaced(&device))
    }

    /// `device` with autodiff.
    pub fn tracked(&self, device: &Device) -> Device {
        let tracked = device.clone().autodiff();
        match self.config.memory.recompute {
            Recompute::Ops => tracked.gradient_checkpointing(),
            _ => tracked,
        }
    }

    /// How layers compute: the precision, and the kernels of `target`.
    pub fn policy(&self, target: Backend) -> Policy {
        let memory = &self.config.memory;
        let kernels = match target {
            Backend::Cpu { .. } => Kernels::Cpu,
            Backend::Cuda | Backend::Vulkan => Kernels::Gpu,
        };
        Policy { precision: memory.precision, lean: memory.lean, kernels, recompute: false }
    }

    /// Whether the loss can be computed by chunks of tokens: `memory.loss_chunk`.
    pub fn takes_loss_chunk(&self) -> bool {
        matches!(self.spec().target, TargetSpec::Tokens { .. })
            && self.architecture.has_tokenwise_head()
            && self.task.is_mean_of_tokens()
            && self.scatter().is_none()
    }

    /// Whether `memory.fit = "auto"` has still to choose.
    pub fn awaits_fit(&self) -> bool {
        self.config.memory.fit == Fit::Auto && !self.is_fitted
    }

    /// The session with another configuration. What `auto` chose is forgotten.
    #[must_use]
    pub fn with_config(&self, config: Config) -> Self {
        Self { config, splits: ChoiceCache::default(), fits: ChoiceCache::default(), ..self.clone() }
    }

    /// The session with other limits, one for each device. Plans use it for devices that this machine does not have.
    #[must_use]
    pub fn with_limits(self, limits: Vec<Bytes>) -> Self {
        let limit_bytes = limits.iter().min().copied();
        let are_alike = limits.iter().all(|limit| Some(*limit) == limit_bytes);
        Self { limit_bytes, limits: if are_alike { Vec::new() } else { limits }, ..self }
    }

    /// The limit of the device with number `device`, if it is known.
    pub fn limit_of(&self, device: usize) -> Option<Bytes> {
        self.limits.get(device).copied().or(self.limit_bytes)
    }

    /// The number of replicas that train together.
    pub fn world_size(&self) -> usize {
        match &self.config.device.sharing {
            _ if !self.replicas.is_alone() => self.replicas.world_size(),
            sharing if sharing.is_of_replicas() => self.config.device.devices.len(),
            _ => 1,
        }
    }

    /// The devices of this process.
    pub fn devices_here(&self) -> &[DeviceName] {
        self.process_devices.as_deref().unwrap_or(&self.config.device.devices)
    }

    /// The devices of this process, separated by commas.
    pub fn device_names(&self) -> String {
        let names: Vec<_> = self.devices_here().iter().map(DeviceName::to_string).collect();
        names.join(",")
    }

    /// The order of forwards and backwards of a split model; `None` if the model is on one device.
    pub fn pipeline_order(&self) -> Option<PipelineOrder> {
        match &self.config.device.sharing {
            Sharing::Model { .. } => Some(PipelineOrder::Sequential),
            Sharing::Pipeline { schedule: PipelineSchedule::GPipe, .. } => Some(PipelineOrder::GPipe),
            Sharing::Pipeline { .. } => Some(PipelineOrder::OneForwardOneBackward),
            Sharing::Alone | Sharing::Dp { .. } | Sharing::Ddp(_) => None,
        }
    }

    /// How the coordinator scatters a batch (`dp`); `None` for other strategies.
    pub fn scatter(&self) -> Option<Scatter> {
        match self.config.device.sharing {
            Sharing::Dp { coordinator_share: share } => {
                Some(Scatter { devices: self.config.device.devices.len(), share })
            }
            _ => None,
        }
    }

    /// Whether the model is split over several devices.
    pub fn is_split(&self) -> bool {
        self.pipeline_order().is_some()
    }

    /// Whether the devices have different roles, so that each needs a plan of its own.
    pub fn has_uneven_devices(&self) -> bool {
        self.is_split() || self.scatter().is_some()
    }

    /// The device that builds the complete model or restores it from a file. A split model is built
    /// on the host, since it need not fit on any of its devices.
    pub fn whole_model_device(&self) -> Device {
        if self.is_split() { Device::flex() } else { self.device.clone() }
    }

    /// The largest number of samples that one device has of a batch of `batch` samples.
    pub fn share_of(&self, batch: usize) -> usize {
        match self.scatter() {
            Some(scatter) => scatter.largest(batch),
            None => batch.div_ceil(self.world_size()),
        }
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
