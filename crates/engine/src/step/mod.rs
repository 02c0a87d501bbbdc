//! Optimizer steps: forward and backward on all devices, then overflow check, clipping and the optimizer.

mod finish;
mod norms;
mod outcome;
mod run;
mod settings;
mod state;
mod stepper;

pub use norms::Norms;
pub use outcome::{DeviceUse, StepOutcome};
pub use settings::StepSettings;
pub use state::StepperState;
pub use stepper::Stepper;

pub use crate::gradients::GradientHook;
