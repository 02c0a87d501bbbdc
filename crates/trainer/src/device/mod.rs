//! Devices: opening, listing and trying them.

#[cfg(feature = "cuda")]
mod cuda;
mod error;
mod open;
#[cfg(feature = "vulkan")]
mod vulkan;

pub use error::OpenDeviceError;
pub use open::{
    DeviceInfo, TrialError, compiled_kernels, count_compiled_kernels, cuda_libraries, find_device,
    find_precision, first_gpu, free_bytes, list_devices, open_device, try_device, vulkan,
};

pub(crate) use open::{has_nccl, prepare_pool};

/// The doctor tells what this build can do, so its features must follow ours.
const _: () = assert!(
    oomph_doctor::HAS_CUDA == cfg!(feature = "cuda") && oomph_doctor::HAS_VULKAN == cfg!(feature = "vulkan")
);
