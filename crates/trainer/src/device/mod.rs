//! Devices: opening, listing and trying them.

#[cfg(feature = "cuda")]
mod cuda;
mod error;
mod open;

pub use error::OpenDeviceError;
pub use open::{
    DeviceInfo, TrialError, compiled_kernels, count_compiled_kernels, cuda_libraries, find_device,
    list_devices, open_device, try_device,
};

pub(crate) use open::{find_precision, has_nccl, prepare_pool};

/// The doctor tells what this build can do, so its feature must follow ours.
const _: () = assert!(oomph_doctor::HAS_CUDA == cfg!(feature = "cuda"));
