//! Checks a machine, its driver and its libraries for training, and explains low-level errors.
//!
//! - [`Check`]: the result of one check: its [state](CheckState), its finding and its hint.
//! - [`health`]: checks of processor, memory, limits, disk, driver and cards.
//! - [`installation`]: checks of the [libraries that CUDA needs](CudaLibraries); [`vulkan()`]: of the loader and drivers of Vulkan.
//! - [`explain`]: the meaning of low-level error messages of drivers, libraries and the system.
//!
//! ```
//! use oomph_doctor::{Check, CheckState, explain};
//!
//! let check = Check::warning("open files", "at most 256", "run `ulimit -n 4096` before oomph");
//! assert_eq!(check.unless_needed(false).state, CheckState::Warning);
//! assert!(explain("Too many open files (os error 24)").is_some_and(|it| it.hint.contains("ulimit")));
//! ```
//!
//! It opens no device and reads no environment variables: callers pass them in.

mod check;
mod explain;
pub mod health;
mod installation;
mod vulkan;

pub use check::{Check, CheckState};
pub use explain::{
    Explanation, explain, is_after_a_failure, is_of_device, is_out_of_memory, without_backtrace,
};
pub use installation::{CudaDriver, CudaLibraries, Nccl, Nvrtc, installation};
pub use vulkan::{Vulkan, VulkanGpu, vulkan};

/// Whether this build includes CUDA.
pub const HAS_CUDA: bool = cfg!(feature = "cuda");

/// Whether this build includes Vulkan.
pub const HAS_VULKAN: bool = cfg!(feature = "vulkan");

/// The name of this build's backend for GPUs, if it has one.
pub const GPU_BACKEND: Option<&str> = match (HAS_CUDA, HAS_VULKAN) {
    (true, _) => Some("CUDA"),
    (_, true) => Some("Vulkan"),
    _ => None,
};
