//! Devices: opening, listing and trying them.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod error;
mod list;
mod open;
mod trial;

pub use error::OpenDeviceError;
pub use list::{DeviceInfo, cuda_libraries, list_devices};
pub use open::{find_device, open_device};
pub use trial::{TrialError, try_device};

pub(crate) use cpu::prepare_pool;
pub(crate) use list::has_nccl;
