use std::{collections::HashMap, path::PathBuf};

use oomph_advice::planning::{PlanOptions, fits, planned_peak};
use oomph_config::{Config, DeviceName};
use oomph_engine::session::backend;
use oomph_trainer::{Registry, default_limit, device::free_bytes, open_to_plan};

use super::{
    figures::{CheckError, SkipReason},
    trainings::Training,
};
use crate::{
    error::CliError,
    notices::Notices,
    probe::{CardAccount, Measured, Probed, Prober, Profiled, Work},
    progress::ProbeBar,
};

/// A loss of each step; `None` where it is not finite.
pub(super) type Losses = Vec<Option<f64>>;

/// Runs the trainings of the checks, each in a child process.
pub(super) struct Runner<'a> {
    pub(super) device: DeviceName,
    pub(super) is_quick: bool,
    /// The accounts of the card, by the name of the training.
    pub(super) accounts: Vec<(&'static str, CardAccount)>,
    registry: &'a Registry,
    prober: Prober,
    bar: ProbeBar,
    /// The label of the check, and its place in the list.
    current: (String, usize),
    /// Losses of the CPU by configuration: several checks need the same.
    cpu_losses: HashMap<String, Losses>,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        device: DeviceName,
        is_quick: bool,
        registry: &'a Registry,
        prober: Prober,
        bar: ProbeBar,
    ) -> Self {
        let (accounts, current, cpu_losses) = (Vec::new(), (String::new(), 0), HashMap::new());
        Self { device, is_quick, accounts, registry, prober, bar, current, cpu_losses }
    }

    /// Begins the check after `done` others.
    pub(super) fn begin(&mut self, label: String, done: usize) {
        self.current = (label, done);
    }

    /// Writes lines above the bar.
    pub(super) fn notices(&self) -> &Notices {
        self.bar.notices()
    }

    /// The losses of the first steps on the verified device.
    pub(super) fn losses(
        &self,
        training: &Training,
        settings: &[String],
        steps: usize,
    ) -> Result<Losses, CheckError> {
        let config = training.config(self.device, settings)?;
        Ok(self.measured(&config, steps, &[])?.losses)
    }

    /// The losses of the first steps on the CPU.
    pub(super) fn cpu_losses(
        &mut self,
        training: &Training,
        settings: &[String],
        steps: usize,
    ) -> Result<Losses, CheckError> {
        let config = training.config(DeviceName::Cpu, settings)?;
        let key = format!("{steps} {}", config.to_toml());
        if let Some(known) = self.cpu_losses.get(&key) {
            return Ok(known.clone());
        }
        let losses = self.measured(&config, steps, &[])?.losses;
        self.cpu_losses.insert(key, losses.clone());
        Ok(losses)
    }

    /// Measures some steps, in a child with more environment variables.
    pub(super) fn measured(
        &self,
        config: &Config,
        steps: usize,
        variables: &[(&str, PathBuf)],
    ) -> Result<Measured, CheckError> {
        let probed = self.probe(config, Work::Measure { steps }, steps, variables)?;
        probed.measured.ok_or(CheckError::NoFigures)
    }

    /// Compares the memory of some steps with the plan.
    pub(super) fn profiled(
        &self,
        config: &Config,
        warmup: usize,
        steps: usize,
    ) -> Result<Profiled, CheckError> {
        let probed = self.probe(config, Work::Profile { warmup, steps }, warmup + steps, &[])?;
        probed.profiled.ok_or(CheckError::NoFigures)
    }

    /// The configuration of a training on the verified device.
    ///
    /// # Errors
    /// [`SkipReason::DoesNotFit`] if its plan exceeds the free memory.
    pub(super) fn fitting(&self, training: &Training) -> Result<Config, CheckError> {
        let config = training.config(self.device, &[])?;
        let limit = match self.device {
            DeviceName::Cpu => default_limit(&config).map(|limit| limit.bytes),
            device => free_bytes(device),
        };
        let Some(limit_bytes) = limit else { return Ok(config) };
        let session = open_to_plan(config.clone(), self.registry).map_err(CliError::from)?;
        let session = session.with_limits(vec![limit_bytes]);
        let planned_bytes = planned_peak(&session, PlanOptions::default()).map_err(CliError::from)?;
        if fits(planned_bytes, limit_bytes, backend(&session)) {
            return Ok(config);
        }
        Err(SkipReason::DoesNotFit { planned_bytes, limit_bytes }.into())
    }

    fn probe(
        &self,
        config: &Config,
        work: Work,
        steps: usize,
        variables: &[(&str, PathBuf)],
    ) -> Result<Probed, CheckError> {
        let (label, done) = &self.current;
        let device = config.device.devices[0];
        self.bar.start(&format!("{label}, on {device}"), *done, steps);
        let probed = self.prober.probe_with(config, work, variables, &mut |step| self.bar.step(step))?;
        match probed.failure {
            Some(failure) => Err(failure.into()),
            None => Ok(probed),
        }
    }
}
