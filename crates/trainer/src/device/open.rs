use burn::tensor::Device;
use oomph_config::DeviceName;
use oomph_core::Bytes;
use serde::Serialize;

use super::{OpenDeviceError, cpu};

/// Opens the device `name`, off autodiff.
///
/// # Errors
/// Where this build or machine lacks the device. The CUDA libraries are looked for first: Burn panics without them.
pub fn open_device(name: DeviceName) -> Result<Device, OpenDeviceError> {
    match name {
        DeviceName::Cpu => {
            cpu::prepare();
            Ok(Device::flex())
        }
        #[cfg(feature = "cuda")]
        DeviceName::Cuda(index) => find_device(name).map(|()| Device::cuda(index)),
        #[cfg(not(feature = "cuda"))]
        DeviceName::Cuda(_) => Err(OpenDeviceError::NoCudaInBuild { device: name }),
    }
}

/// Checks that the device `name` exists, without opening it: an open device takes memory on a GPU.
///
/// # Errors
/// Where this build or machine lacks the device.
pub fn find_device(name: DeviceName) -> Result<(), OpenDeviceError> {
    let DeviceName::Cuda(index) = name else { return Ok(()) };
    let count = gpus(name)?.len();
    if index < count { Ok(()) } else { Err(OpenDeviceError::NoSuchGpu { device: name, count }) }
}

/// A row of `oomph devices`.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceInfo {
    /// The name for `--devices`.
    pub name: String,
    /// The processor or the GPU model.
    pub description: String,
    /// Memory of the GPU, or memory that the machine and its cgroup leave to this process.
    pub memory_bytes: Bytes,
}

/// The devices that this build can use on this machine. Where GPUs are missing, the reason comes along.
pub fn list_devices() -> (Vec<DeviceInfo>, Option<OpenDeviceError>) {
    let machine = oomph_memory::machine();
    let mut devices = vec![DeviceInfo {
        name: DeviceName::Cpu.to_string(),
        description: format!("{}, {} cores", machine.processor, machine.cores),
        memory_bytes: machine.memory_bytes,
    }];
    let device = DeviceName::Cuda(0);
    let error = match gpus(device) {
        Ok(gpus) if gpus.is_empty() => Some(OpenDeviceError::NoSuchGpu { device, count: 0 }),
        Ok(gpus) => {
            devices.extend(gpus);
            None
        }
        Err(error) => Some(error),
    };
    (devices, error)
}

/// The GPUs that the driver shows to this process, by index. Kernels can be compiled for them. `device` is named in errors.
#[cfg(feature = "cuda")]
fn gpus(device: DeviceName) -> Result<Vec<DeviceInfo>, OpenDeviceError> {
    let gpus = super::cuda::gpus(device)?;
    super::cuda::find_compiler(device)?;
    Ok(gpus)
}

#[cfg(not(feature = "cuda"))]
fn gpus(device: DeviceName) -> Result<Vec<DeviceInfo>, OpenDeviceError> {
    Err(OpenDeviceError::NoCudaInBuild { device })
}

/// The libraries that CUDA needs, for [`oomph_doctor::installation`]. `None` in a build without CUDA.
pub fn cuda_libraries() -> Option<oomph_doctor::CudaLibraries> {
    #[cfg(feature = "cuda")]
    return Some(super::cuda::libraries());
    #[cfg(not(feature = "cuda"))]
    None
}

#[cfg(feature = "cuda")]
pub(crate) fn has_nccl() -> bool {
    matches!(super::cuda::nccl(), oomph_doctor::Nccl::Found { .. })
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn has_nccl() -> bool {
    false
}
