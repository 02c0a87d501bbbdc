//! What of this machine is missing or wrong for training, each as a [`Check`].
//!
//! - [`processor`], [`host_memory`], [`shared_memory`], [`limits`], [`disk`], [`cache`]: what every training needs.
//! - [`Hardware`], [`driver`], [`device_files`], [`visible_devices`], [`gpu`], [`lost`]: what one on a GPU needs.
//!
//! Nothing is changed or waited for, and nothing of NVIDIA is needed to look. What is read is below the root of a
//! [`Procfs`](crate::processes::Procfs), so that tests can look at a machine of their own.

mod check;
mod device_files;
mod disk;
mod driver;
mod gpu;
mod hardware;
mod host_memory;
mod limits;
mod processor;
mod shared_memory;
mod visible;

pub use check::{Check, State};
pub use device_files::device_files;
pub use disk::{cache, disk};
pub use driver::driver;
pub use gpu::{gpu, lost};
pub use hardware::Hardware;
pub use host_memory::host_memory;
pub use limits::limits;
pub use processor::processor;
pub use shared_memory::shared_memory;
pub use visible::visible_devices;

#[cfg(test)]
mod tree;
