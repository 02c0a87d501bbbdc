//! The names of strategies.

use crate::{error::ConfigError, section::Section};

/// How several devices share the work, as `device.strategy` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// `auto`: none for one device, `ddp` for several.
    Auto,
    /// `dp`: replicas under one coordinator.
    Dp,
    /// `ddp`: equal replicas that all-reduce their gradients.
    Ddp,
    /// `model`: consecutive stages on consecutive devices.
    Model,
    /// `pipeline`: as `model`, with several micro-batches in flight.
    Pipeline,
}

const STRATEGIES: [(&str, Strategy); 5] = [
    ("auto", Strategy::Auto),
    ("dp", Strategy::Dp),
    ("ddp", Strategy::Ddp),
    ("model", Strategy::Model),
    ("pipeline", Strategy::Pipeline),
];

impl Strategy {
    /// The name, as `device.strategy` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Dp => "dp",
            Self::Ddp => "ddp",
            Self::Model => "model",
            Self::Pipeline => "pipeline",
        }
    }

    pub(super) fn read(section: &Section) -> Result<Self, ConfigError> {
        section.choice("strategy", "auto", &STRATEGIES)
    }
}
