//! Devices: opening, listing and trying them.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod error;
mod open;
mod trial;

pub use error::OpenDeviceError;
pub use open::{DeviceInfo, cuda_libraries, find_device, list_devices, open_device};
pub use trial::{TrialError, try_device};

pub(crate) use cpu::prepare_pool;
pub(crate) use open::has_nccl;

/// The doctor tells what this build can do, so its feature must follow ours.
const _: () = assert!(oomph_doctor::HAS_CUDA == cfg!(feature = "cuda"));
