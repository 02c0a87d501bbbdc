//! GPUs: which there are, what their memory is used for, and by whom.
//!
//! - [`find`], [`catalogue`]: known models with their memory, for planning without one at hand; [`GpuMemory`] and
//!   [`SeveralGpus`] read `--gpu`.
//! - [`Cards`]: where figures of cards come from; [`Nvml`] is NVIDIA's library, looked for at run time.
//! - [`Card`], [`MigInstance`], [`CardProcess`]: one sample; [`CardState`]: how a card is set, and whether it is sound.
//! - [`cuda_devices`]: which of them CUDA counts as `cuda:0`, `cuda:1` …
//! - [`Breakdown`]: what the used memory of a device is, as one process sees it.
//!
//! Nothing here needs NVIDIA software to compile or to run: what is missing is an [`NvmlError`].

mod breakdown;
mod card;
mod catalog;
mod limit;
mod models;
mod names;
mod nvml;
mod several;
mod state;
mod visible;

pub use breakdown::{Breakdown, DeviceReading, OwnMemory};
pub use card::{Card, CardMemory, CardProcess, Cards, MigInstance, ProcessKind};
pub use catalog::{Gpu, UnknownGpu, catalogue, find};
pub use limit::{GpuMemory, GpuMemoryError};
pub use nvml::{Nvml, NvmlError};
pub use several::SeveralGpus;
pub use state::{CardState, ComputeMode};
pub use visible::{CudaDevice, cuda_devices};
