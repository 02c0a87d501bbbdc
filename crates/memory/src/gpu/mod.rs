//! GPUs: known models, the cards of this machine, and the use of their memory.
//!
//! - [`find`], [`catalogue`]: known models with their memory, to plan without a card; [`GpuMemory`] and [`MultiGpu`]
//!   read `--gpu`.
//! - [`Cards`]: a source of cards; [`Nvml`] is NVIDIA's library, loaded at run time.
//! - [`Card`], [`MigInstance`], [`CardProcess`]: one sample; [`CardState`]: a card's settings and errors.
//! - [`cuda_devices`]: the devices that CUDA counts as `cuda:0`, `cuda:1` …; [`visible_devices`]: CUDA_VISIBLE_DEVICES.
//! - [`Breakdown`]: the used memory of a device from the view of one process.
//!
//! It compiles and runs without NVIDIA software; missing software is an [`NvmlError`].

mod breakdown;
mod card;
mod catalog;
mod limit;
mod models;
mod names;
mod nvml;
mod visible;

pub use breakdown::{Breakdown, DeviceReading, OwnMemory};
pub use card::{Card, CardMemory, CardProcess, CardState, Cards, ComputeMode, MigInstance, ProcessKind};
pub use catalog::{Gpu, GpuPeak, UnknownGpu, catalogue, find};
pub use limit::{GpuMemory, GpuMemoryError, MultiGpu};
pub use nvml::{Nvml, NvmlError};
pub use visible::{CudaDevice, cuda_devices, visible_devices};
