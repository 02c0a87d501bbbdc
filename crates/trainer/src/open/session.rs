use std::{num::NonZeroUsize, ops::Range, sync::Arc};

use burn::tensor::Device;
use oomph_calibration::{Calibration, MachineKey, reference};
use oomph_config::{Config, ConfigError, DeviceName, Recompute};
use oomph_core::{Bytes, InputSpec, TargetSpec};
use oomph_data::{
    LoaderOptions, Source, SourceRecord,
    sampling::{ClassMembers, Sampling},
};
use oomph_engine::{
    ranks::Replicas,
    session::{ChoiceCache, Session, StageOutputs, check_names, cpus, threads_of_each},
};
use oomph_memory::{DefaultLimit, LimitReason, ThreadsError};
use oomph_plan::time::DeviceSpeeds;

use super::{Components, Registry, SessionError, cache_dir, class_weights::weighted};
use crate::{
    device::{OpenDeviceError, find_precision, free_bytes, open_device},
    device_memory::install_pool,
    eval_metric::check_best,
};

/// Opens model, data, task and device of a configuration, and checks that they fit: one batch passes through the model on
/// a device that records operations and executes none.
///
/// # Errors
/// The first error, with its place in the configuration if there is one.
pub fn open(config: Config, registry: &Registry) -> Result<Session, SessionError> {
    let session = opened(config, registry, |components, config| Ok(components.open_source(config)?))?;
    check_batch(&session)?;
    Ok(session)
}

/// Opens a session for a trained model. `record` finds the record of its data: statistics and columns that the configuration
/// leaves to the data are those of the record.
///
/// # Errors
/// The errors of [`open`], and those of `record`.
pub(crate) fn open_trained(
    config: Config,
    registry: &Registry,
    record: impl FnOnce(&Components) -> Result<Option<SourceRecord>, SessionError>,
) -> Result<Session, SessionError> {
    let session = opened(config, registry, |components, config| {
        Ok(components.open_source_as(record(components)?, config)?)
    })?;
    // Nothing is trained here.
    Ok(Session { is_fitted: true, ..session })
}

/// Opens a session on `source` instead of the configured data, for predictions. The configured data is not opened.
///
/// # Errors
/// The errors of [`open`] that are not about the data.
pub fn open_on(
    source: Arc<dyn Source>,
    config: Config,
    registry: &Registry,
) -> Result<Session, SessionError> {
    let session = opened(config, registry, |_, _| Ok(source))?;
    Ok(Session { is_fitted: true, ..session })
}

/// Opens a session without a device, to plan for a device that this machine may lack. The session cannot train.
///
/// # Errors
/// The errors of [`open`] that are not about the device.
pub fn open_to_plan(config: Config, registry: &Registry) -> Result<Session, SessionError> {
    let device = |config: &Config| Ok((Device::flex(), config.memory.limit.into_iter().collect()));
    let session =
        assemble(config, registry, device, |components, config| Ok(components.source_to_plan(config)?))?;
    check_batch(&session)?;
    Ok(session)
}

fn opened(
    config: Config,
    registry: &Registry,
    source: impl FnOnce(&Components, &Config) -> Result<Arc<dyn Source>, SessionError>,
) -> Result<Session, SessionError> {
    let device = |config: &Config| -> Result<_, SessionError> {
        start_threads(config)?;
        let name = config.device.devices[0];
        let device = open_device(name)?;
        config.device.devices.iter().try_for_each(|name| find_precision(*name, config.memory.precision))?;
        install_pool(&device, config.memory.pool)
            .map_err(|reason| OpenDeviceError::Pools { device: name, reason })?;
        Ok((device, limits(config)))
    };
    assemble(config, registry, device, source)
}

fn assemble(
    config: Config,
    registry: &Registry,
    device: impl FnOnce(&Config) -> Result<(Device, Vec<Bytes>), SessionError>,
    source: impl FnOnce(&Components, &Config) -> Result<Arc<dyn Source>, SessionError>,
) -> Result<Session, SessionError> {
    let components = registry.read(&config)?;
    let (device, limits) = device(&config)?;
    let source = source(&components, &config)?;
    let task = registry.task(&config, &source.spec().target)?;
    task.check(&source.spec().target)?;
    components.loader.mix.check(source.spec(), task.takes_mixed(), &config.data)?;
    let task = weighted(task, &config, source.as_ref())?;
    let batch = config.train.eval_batch.unwrap_or(config.train.batch);
    let summary = components.summary(&config, source.spec(), batch)?;
    let loader = sampled(components.loader, &config, source.as_ref())?;
    let speeds = speeds(&config)?;
    let Components { architecture, weights, .. } = components;
    let session = Session {
        stages: summary.stages().map(|row| row.name.clone()).collect(),
        outputs: StageOutputs::of(&summary),
        leading_frozen: summary.stages().take_while(|row| row.is_frozen).count(),
        has_running_statistics: summary.has_running_statistics(),
        config,
        architecture,
        weights,
        source,
        loader,
        task,
        device,
        limit_bytes: None,
        limits: Vec::new(),
        replicas: Replicas::alone(),
        process_devices: None,
        speeds,
        splits: ChoiceCache::default(),
        fits: ChoiceCache::default(),
        is_fitted: false,
    };
    let session = session.with_limits(limits);
    check_best(&session)?;
    if session.config.memory.loss_chunk.is_some() && !session.takes_loss_chunk() {
        let expected = "no value: only the loss of a language model is computed by chunks of tokens";
        return Err(session.config.invalid("memory.loss_chunk", expected).into());
    }
    if let Recompute::Named(named) = &session.config.memory.recompute {
        let stages: Vec<&str> = session.stages.iter().map(String::as_str).collect();
        check_names(&session.config, "memory.recompute", named, &stages)?;
    }
    Ok(session)
}

/// Checks that a batch in tokens is one of tokens.
fn check_batch(session: &Session) -> Result<(), ConfigError> {
    let train = &session.config.train;
    let Some(tokens) = train.batch_tokens else { return Ok(()) };
    let because = match session.spec().input {
        InputSpec::Tokens { steps, .. } if steps.saturating_mul(train.batch) == tokens => return Ok(()),
        InputSpec::Tokens { steps, .. } => format!("a sample has {steps} tokens"),
        _ => "the data has no tokens".to_owned(),
    };
    Err(session.config.invalid("train.batch", format!("a number of samples: {because}")))
}

/// The options of the loader, with the members of the classes that balanced sampling draws from.
fn sampled(
    options: LoaderOptions,
    config: &Config,
    source: &dyn Source,
) -> Result<LoaderOptions, SessionError> {
    if options.sampling == Sampling::Shuffled {
        return Ok(options);
    }
    if !matches!(source.spec().target, TargetSpec::Class { .. }) || source.is_continuous() {
        let why = match source.spec().target {
            TargetSpec::Labels { .. } => "a sample may have several labels",
            _ => "the targets are no classes",
        };
        return Err(config.invalid("data.sampling", format!("`shuffled`, since {why}")).into());
    }
    Ok(LoaderOptions { sampling: Sampling::Balanced(ClassMembers::of(source)), ..options })
}

/// How fast the devices are: by the calibration that the configuration names, or by that of this machine, if it has one.
fn speeds(config: &Config) -> Result<DeviceSpeeds, SessionError> {
    let typical = DeviceSpeeds::typical(reference().speeds());
    let found = match &config.device.calibration {
        Some(path) => Some(Calibration::read(path)?),
        None => {
            let threads = threads_of_each(config).unwrap_or_else(oomph_memory::running_threads);
            Calibration::of(&cache_dir(), &MachineKey::here(threads))
        }
    };
    Ok(match found {
        Some(calibration) => typical.with_cpu(calibration.speeds()),
        None => typical,
    })
}

/// Starts the compute threads. Without `device.threads`, threads that already run are fine.
fn start_threads(config: &Config) -> Result<(), ThreadsError> {
    let started = oomph_memory::compute_threads(threads_of_each(config).and_then(NonZeroUsize::new));
    match started {
        Err(ThreadsError::Running { .. }) if config.device.threads.is_none() => Ok(()),
        started => started.map(drop),
    }
}

/// The default limit of each CPU device: an equal share of the free memory.
pub fn default_limit(config: &Config) -> Option<DefaultLimit> {
    let part = |bytes: Bytes| Bytes::new(bytes.get() / cpus(config).get() as u64);
    let DefaultLimit { bytes, reason, reserve_bytes } = oomph_memory::default_limit()?;
    Some(DefaultLimit { bytes: part(bytes), reason, reserve_bytes: part(reserve_bytes) })
}

/// The memory limit of a device, as far as it is known before it is opened: of a CPU device `memory.limit` or else the default
/// limit, of a GPU its free memory.
pub fn limit_of(device: DeviceName, config: &Config) -> Option<Bytes> {
    match device {
        DeviceName::Cpu => config.memory.limit.or_else(|| Some(default_limit(config)?.bytes)),
        DeviceName::Cuda(_) | DeviceName::Vulkan(_) => free_bytes(device),
    }
}

/// The limit of each CPU device. Above what `ulimit -v` leaves, an allocation would end the process, so a larger
/// `memory.limit` is lowered to that.
fn cpu_limit(config: &Config) -> Option<Bytes> {
    let default = default_limit(config);
    match (config.memory.limit, default) {
        (Some(asked), Some(most)) if most.reason == LimitReason::AddressSpace => Some(asked.min(most.bytes)),
        (asked, default) => asked.or(default.map(|default| default.bytes)),
    }
}

/// The limit of each device; empty unless all are known. The limit of a GPU is its free memory. The meter checks the limit
/// of the CPU devices from now on.
fn limits(config: &Config) -> Vec<Bytes> {
    let devices = &config.device.devices;
    let has_cpu = devices.contains(&DeviceName::Cpu);
    let of_cpu = if has_cpu { cpu_limit(config) } else { None };
    if has_cpu {
        oomph_memory::set_limit(of_cpu);
    }
    let of = |device: &DeviceName| match device {
        DeviceName::Cpu => of_cpu,
        DeviceName::Cuda(_) | DeviceName::Vulkan(_) => free_bytes(*device),
    };
    devices.iter().map(of).collect::<Option<_>>().unwrap_or_default()
}

/// The session of one rank, on the device `name`.
pub(crate) fn rank_session(
    session: &Session,
    name: DeviceName,
    device: Device,
    replicas: Replicas,
) -> Session {
    let mut config = session.config.clone();
    config.device.threads = threads_of_each(&config);
    let devices = std::mem::replace(&mut config.device.devices, vec![name]);
    Session {
        replicas,
        device,
        limits: Vec::new(),
        process_devices: Some(devices),
        ..session.with_config(config)
    }
}

/// The rows of a batch that rank `rank` of `world` trains on.
pub(crate) fn rows_of(session: &Session, rank: usize, world: usize) -> Range<usize> {
    oomph_parallel::rows(session.config.train.batch, rank, world)
}

/// Whether all devices are GPUs, and no GPU is named twice.
pub(crate) fn are_different_gpus(names: &[DeviceName]) -> bool {
    let is_first = |index: usize| !names[..index].contains(&names[index]);
    !names.contains(&DeviceName::Cpu) && (0..names.len()).all(is_first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nccl_sums_neither_on_a_gpu_named_twice_nor_on_the_cpu() {
        use DeviceName::{Cpu, Cuda};
        assert!(are_different_gpus(&[Cuda(0)]) && are_different_gpus(&[Cuda(1), Cuda(0)]));
        assert!(!are_different_gpus(&[Cuda(0), Cuda(1), Cuda(0)]));
        assert!(!are_different_gpus(&[Cuda(0), Cpu]) && !are_different_gpus(&[Cpu, Cpu]));
    }
}
