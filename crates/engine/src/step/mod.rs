//! Optimizer steps: forward and backward on all devices, then overflow check, clipping and the optimizer.

mod finish;
mod norms;
mod outcome;
mod ranks;
mod run;
mod settings;
pub mod state;
mod stepper;

pub use norms::Norms;
pub use outcome::{DeviceUse, StepOutcome};
pub use settings::StepSettings;
pub use stepper::Stepper;

pub use crate::gradients::GradientHook;
