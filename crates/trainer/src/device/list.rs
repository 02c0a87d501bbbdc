use oomph_config::DeviceName;
use oomph_core::Bytes;
use serde::Serialize;

use super::OpenDeviceError;

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
    match list_cuda() {
        Ok(gpus) => {
            devices.extend(gpus);
            (devices, None)
        }
        Err(error) => (devices, Some(error)),
    }
}

#[cfg(not(feature = "cuda"))]
fn list_cuda() -> Result<Vec<DeviceInfo>, OpenDeviceError> {
    Err(OpenDeviceError::NoCudaInBuild { device: DeviceName::Cuda(0) })
}

#[cfg(feature = "cuda")]
fn list_cuda() -> Result<Vec<DeviceInfo>, OpenDeviceError> {
    let first = DeviceName::Cuda(0);
    let gpus = super::cuda::gpus(first)?;
    super::cuda::find_compiler(first)?;
    if gpus.is_empty() {
        return Err(OpenDeviceError::NoSuchGpu { device: first, count: 0 });
    }
    let info = |(index, gpu): (usize, super::cuda::Gpu)| DeviceInfo {
        name: DeviceName::Cuda(index).to_string(),
        description: gpu.description,
        memory_bytes: gpu.memory_bytes,
    };
    Ok(gpus.into_iter().enumerate().map(info).collect())
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
