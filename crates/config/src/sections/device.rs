use crate::{
    device_name::DeviceName,
    error::ConfigError,
    section::{Refused, Section},
    value::Value,
};

/// `[device]`: where a run computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceConfig {
    /// `devices`: a list, or names with commas between; at least one, default `cpu`. Whether this build and machine
    /// have them is seen when the run starts.
    pub devices: Vec<DeviceName>,
    /// `strategy`: `auto`, `dp`, `ddp`, `model` or `pipeline`; default `auto`.
    pub strategy: Strategy,
    /// `threads`: threads that compute on the CPU, from 1 to 1,024; by default one a core.
    pub threads: Option<usize>,
}

/// How several devices share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// `auto`: whatever suits the devices; one device needs none.
    Auto,
    /// `dp`: replicas under one coordinator.
    Dp,
    /// `ddp`: equal replicas that all-reduce their gradients.
    Ddp,
    /// `model`: consecutive stages on consecutive devices.
    Model,
    /// `pipeline`: the same with several micro-batches in flight.
    Pipeline,
}

/// More than any machine has cores; starting many more takes minutes.
const MOST_THREADS: usize = 1024;

const STRATEGIES: [(&str, Strategy); 5] = [
    ("auto", Strategy::Auto),
    ("dp", Strategy::Dp),
    ("ddp", Strategy::Ddp),
    ("model", Strategy::Model),
    ("pipeline", Strategy::Pipeline),
];

impl DeviceConfig {
    pub(crate) fn read(section: &Section) -> Result<Self, ConfigError> {
        let expected = "devices such as `cpu`, `cuda` or `cuda:0,cuda:1`";
        let device = Self {
            devices: section.or("devices", vec![DeviceName::Cpu], expected, as_devices)?,
            strategy: section.choice("strategy", "auto", &STRATEGIES)?,
            threads: section.optional_integer("threads", 1..=MOST_THREADS)?,
        };
        if device.devices.len() > 1 {
            return Err(section.not_yet("devices", "one device"));
        }
        if device.strategy != Strategy::Auto {
            return Err(section.not_yet("strategy", "`auto`"));
        }
        Ok(device)
    }
}

fn as_devices(value: &Value) -> Result<Vec<DeviceName>, Refused> {
    let parsed = |text: &str| text.parse().map_err(|_| Refused::Value);
    match value {
        Value::String(text) => text.split(',').map(parsed).collect(),
        Value::List(names) if names.is_empty() => Err(Refused::Value),
        Value::List(names) => {
            let device = |name: &Value| match name {
                Value::String(text) => parsed(text),
                _ => Err(Refused::Kind),
            };
            names.iter().map(device).collect()
        }
        _ => Err(Refused::Kind),
    }
}

impl From<DeviceName> for Value {
    fn from(device: DeviceName) -> Self {
        Self::String(device.to_string())
    }
}
