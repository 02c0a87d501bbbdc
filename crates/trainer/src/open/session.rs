use std::sync::Arc;

use burn::tensor::Device;
use oomph_config::{Config, Recompute};
use oomph_core::Bytes;
use oomph_data::{DataError, Source};
use oomph_engine::{
    ranks::Replicas,
    session::{Session, SplitCache, check_names},
};

use super::{
    Components, Registry, SessionError,
    limits::{limits, start_threads},
};
use crate::{
    device::{OpenDeviceError, open_device},
    device_memory::install_pool,
};

/// Opens model, data, task and device of a configuration, and checks that they fit: one batch passes through the model on
/// a device that records operations and executes none.
///
/// # Errors
/// The first error, with its place in the configuration if there is one.
pub fn open(config: Config, registry: &Registry) -> Result<Session, SessionError> {
    opened(config, registry, Components::open_source)
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
    opened(config, registry, |_, _| Ok(source))
}

/// Opens a session without a device, to plan for a device that this machine may lack. The session cannot train.
///
/// # Errors
/// The errors of [`open`] that are not about the device.
pub fn open_to_plan(config: Config, registry: &Registry) -> Result<Session, SessionError> {
    let device = |config: &Config| Ok((Device::flex(), config.memory.limit.into_iter().collect()));
    assemble(config, registry, device, Components::open_source)
}

fn opened(
    config: Config,
    registry: &Registry,
    source: impl FnOnce(&Components, &Config) -> Result<Arc<dyn Source>, DataError>,
) -> Result<Session, SessionError> {
    let device = |config: &Config| -> Result<_, SessionError> {
        start_threads(config)?;
        let name = config.device.devices[0];
        let device = open_device(name)?;
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
    source: impl FnOnce(&Components, &Config) -> Result<Arc<dyn Source>, DataError>,
) -> Result<Session, SessionError> {
    let components = registry.read(&config)?;
    let (device, limits) = device(&config)?;
    let source = source(&components, &config)?;
    let task = registry.task(&config, &source.spec().target)?;
    task.check(&source.spec().target)?;
    let batch = config.train.eval_batch.unwrap_or(config.train.batch);
    let summary = components.summary(&config, source.spec(), batch)?;
    let Components { architecture, loader, weights, .. } = components;
    let session = Session {
        stages: summary.stages().map(|row| row.name.clone()).collect(),
        leading_frozen: summary.stages().take_while(|row| row.is_frozen).count(),
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
        splits: SplitCache::default(),
    };
    let session = session.with_limits(limits);
    check_recomputed(&session)?;
    Ok(session)
}

/// Checks that `memory.recompute` names stages of the model.
fn check_recomputed(session: &Session) -> Result<(), SessionError> {
    let Recompute::Named(named) = &session.config.memory.recompute else { return Ok(()) };
    let stages: Vec<&str> = session.stages.iter().map(String::as_str).collect();
    Ok(check_names(&session.config, "memory.recompute", named, &stages)?)
}
