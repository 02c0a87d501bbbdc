use burn::tensor::Device;
use oomph_config::DeviceName;

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
        DeviceName::Cuda(index) => open_cuda(name, index),
    }
}

/// Checks that the device `name` exists, without opening it: an open device takes memory on a GPU.
///
/// # Errors
/// Where this build or machine lacks the device.
pub fn find_device(name: DeviceName) -> Result<(), OpenDeviceError> {
    match name {
        DeviceName::Cpu => Ok(()),
        DeviceName::Cuda(index) => find_cuda(name, index),
    }
}

#[cfg(not(feature = "cuda"))]
fn find_cuda(device: DeviceName, _index: usize) -> Result<(), OpenDeviceError> {
    Err(OpenDeviceError::NoCudaInBuild { device })
}

#[cfg(feature = "cuda")]
fn find_cuda(device: DeviceName, index: usize) -> Result<(), OpenDeviceError> {
    let gpus = super::cuda::gpus(device)?;
    super::cuda::find_compiler(device)?;
    if index >= gpus.len() {
        return Err(OpenDeviceError::NoSuchGpu { device, count: gpus.len() });
    }
    Ok(())
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(device: DeviceName, _index: usize) -> Result<Device, OpenDeviceError> {
    Err(OpenDeviceError::NoCudaInBuild { device })
}

#[cfg(feature = "cuda")]
fn open_cuda(device: DeviceName, index: usize) -> Result<Device, OpenDeviceError> {
    find_cuda(device, index).map(|()| Device::cuda(index))
}
