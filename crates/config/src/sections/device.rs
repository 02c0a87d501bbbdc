//! `[device]`.

use std::{path::PathBuf, time::Duration};

use super::{
    batch::batch_setting,
    sharing::{Sharing, Strategy},
};
use crate::{
    device_name::DeviceName,
    error::ConfigError,
    precedence::{Rule, clash},
    section::{Refused, Section, as_items},
    value::Value,
};

/// `[device]`: where a run computes.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceConfig {
    /// `devices`: a list, or names separated by commas; at least one, default `cpu`. The CPU may be named several times,
    /// to rehearse several devices; a GPU may not. The start of the run checks whether this build and machine have them.
    pub devices: Vec<DeviceName>,
    /// `strategy`: `auto`, `dp`, `ddp`, `model` or `pipeline`; default `auto`. `sharing` is its result.
    pub strategy: Strategy,
    /// The strategy in force, with its own settings.
    pub sharing: Sharing,
    /// `threads`: threads that compute on the CPU, from 1 to 1,024; by default one per core.
    pub threads: Option<usize>,
    /// `calibration`: a file that `oomph calibrate` wrote, to plan times with; by default that of this machine in the cache.
    pub calibration: Option<PathBuf>,
    /// `timeout`: whole seconds that devices and processes wait for each other before the run fails; from 1 to a year,
    /// default 600, as PyTorch's for NCCL.
    pub timeout: Duration,
}

/// More than any machine has cores; starting many more takes minutes.
const MOST_THREADS: usize = 1024;

/// A year.
const MOST_SECONDS: usize = 31_536_000;

impl DeviceConfig {
    /// Reads the section. `batch` is `train.batch`; `train` has its setting.
    pub(crate) fn read(section: &Section, train: &Section, batch: usize) -> Result<Self, ConfigError> {
        let expected = "devices such as `cpu`, `cuda:0`, `vulkan:0` or `cuda:0,cuda:1`";
        let devices = section.or("devices", vec![DeviceName::Cpu], expected, |value| {
            as_items(value, |name| name.parse().map_err(|_| Refused::Value))
        })?;
        let is_twice = |(index, device): (usize, &DeviceName)| {
            *device != DeviceName::Cpu && devices[..index].contains(device)
        };
        if devices.iter().enumerate().any(is_twice) {
            let expected = "each GPU at most once, as two parts on one GPU share its memory and take turns; \
                            `cpu,cpu` rehearses several devices";
            return Err(section.invalid("devices", expected));
        }
        let is_vulkan = |device: &DeviceName| matches!(device, DeviceName::Vulkan(_));
        if devices.len() > 1 && devices.iter().any(is_vulkan) {
            return Err(
                section.invalid("devices", "one device with Vulkan; several GPUs train by CUDA alone")
            );
        }
        let (strategy, sharing) = Sharing::read(section, devices.len())?;
        if DeviceName::are_mixed(&devices)
            && !matches!(sharing, Sharing::Ddp(_))
            && let (Some(devices), Some(strategy)) =
                (section.ledger.setting("devices"), section.ledger.setting("strategy"))
        {
            return Err(clash(devices, strategy, &OF_ONE_KIND));
        }
        if sharing.is_of_replicas()
            && devices.len() > batch
            && let (Some(devices), Some(batch)) =
                (section.ledger.given("devices"), batch_setting(train, batch))
        {
            return Err(clash(devices, batch, &A_SAMPLE_EACH));
        }
        Ok(Self {
            devices,
            strategy,
            sharing,
            threads: section.optional_integer("threads", 1..=MOST_THREADS)?,
            calibration: section.optional_string("calibration")?.map(PathBuf::from),
            // A usize has at most 64 bits on every machine Rust supports.
            timeout: Duration::from_secs(section.integer("timeout", 600, 1..=MOST_SECONDS)? as u64),
        })
    }
}

const OF_ONE_KIND: Rule = Rule {
    says: "one program computes for all devices of this strategy, with kernels of one kind",
    fix: "name the CPU or GPUs, not both, or set `device.strategy` to `ddp`",
};

const A_SAMPLE_EACH: Rule = Rule {
    says: "each device needs at least one sample of the batch",
    fix: "raise `train.batch` or name fewer devices",
};

impl From<DeviceName> for Value {
    fn from(device: DeviceName) -> Self {
        Self::String(device.to_string())
    }
}
