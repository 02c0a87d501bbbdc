//! The training step of oomph, written once.
//!
//! The same program runs a step on one device and on many. Each device has a [`Role`](layout::Role), and the role lists
//! [`WorkItem`](layout::WorkItem)s. A [`Transport`](transport::Transport) brings the tensors that other devices make:
//! over a link when the step executes, as a blank tensor when the planner records it. Execution and planning therefore
//! call the same functions, from the upload of a micro-batch to the optimizer.
//!
//! - [`Session`](session::Session): a resolved configuration and the data, model and devices opened for it. Plain data.
//! - [`Stepper`](step::Stepper): runs optimizer steps one after another.
//! - [`layout`]: the stages of each device, and its work in a step.
//! - [`part`]: forward, backward and recompute of the stages on one device.
//! - [`transport`]: links between devices, and blank tensors for plans.
//! - [`ranks`]: replicas that train together, and the all-reduce of their gradients.
//! - [`WeightAverage`](average::WeightAverage): the average of weights over steps.
//! - [`Optimizer`](optimizer::Optimizer), [`LossScale`](loss_scale::LossScale), [`clip`](clip::clip),
//!   [`Task`](task::Task): the pieces of a step.
//!
//! ```
//! use oomph_engine::loss_scale::LossScale;
//!
//! let mut loss_scale = LossScale::default();
//! assert!(loss_scale.overflowed(), "the first overflow halves the loss scale");
//! assert_eq!(loss_scale.scale(), 32_768.0);
//! ```
//!
//! The engine does not open files or devices, does not plan and has no training loop. `oomph-runs` writes checkpoints,
//! `oomph-advice` plans, and `oomph-trainer` opens sessions and runs the loop.

pub mod average;
pub mod class_weights;
pub mod clip;
pub mod device_failure;
mod error;
pub mod exhausted;
mod gradients;
pub mod layout;
pub mod loss_scale;
pub mod micro_batches;
mod multi_label;
pub mod part;
pub mod ranks;
pub mod session;
mod shortage;
pub mod step;
pub mod task;
#[cfg(test)]
mod tests;
pub mod transport;
pub mod upload;
pub mod watch;

pub use error::EngineError;
pub use oomph_optimizer::{self as optimizer, HostTensor, record, tensor_file};
