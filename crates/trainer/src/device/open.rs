use std::{cell::Cell, sync::Once};

use burn::tensor::{Device, Tensor};
use oomph_config::{DeviceName, Precision};
use oomph_core::Bytes;
use oomph_memory::{Account, ComputePool, charge, on_compute_threads};
use serde::Serialize;

use super::OpenDeviceError;

/// Opens the device `name`, off autodiff.
///
/// # Errors
/// Where this build or machine lacks the device. Libraries and drivers are looked for first: Burn panics without them.
pub fn open_device(name: DeviceName) -> Result<Device, OpenDeviceError> {
    match name {
        DeviceName::Cpu => {
            prepare_cpu();
            Ok(Device::flex())
        }
        #[cfg(feature = "cuda")]
        DeviceName::Cuda(index) => find_device(name).map(|()| {
            oomph_gpu_kernels::keep_compiled_kernels(crate::open::cache_dir().join("gpu"));
            Device::cuda(index)
        }),
        #[cfg(feature = "vulkan")]
        DeviceName::Vulkan(index) => super::vulkan::open(name, index),
        #[cfg(not(feature = "vulkan"))]
        DeviceName::Vulkan(_) => Err(OpenDeviceError::NotInBuild { device: name }),
        #[cfg(not(feature = "cuda"))]
        DeviceName::Cuda(_) => Err(OpenDeviceError::NotInBuild { device: name }),
    }
}

/// Counts the GPU kernels that are compiled from now on, for [`compiled_kernels`]. It becomes the program's logger, so a
/// library never calls it.
pub fn count_compiled_kernels() {
    #[cfg(any(feature = "cuda", feature = "vulkan"))]
    oomph_gpu_kernels::count_compiled_kernels();
}

/// GPU kernels that were compiled since [`count_compiled_kernels`] was called. The first step of a training compiles them,
/// which takes about 0.1 s each; with CUDA, later runs load them.
pub fn compiled_kernels() -> u64 {
    #[cfg(any(feature = "cuda", feature = "vulkan"))]
    return oomph_gpu_kernels::compiled_kernels();
    #[cfg(not(any(feature = "cuda", feature = "vulkan")))]
    0
}

/// Checks that the device `name` exists, without opening it: an open device takes memory on a GPU.
///
/// # Errors
/// Where this build or machine lacks the device.
pub fn find_device(name: DeviceName) -> Result<(), OpenDeviceError> {
    let (DeviceName::Cuda(index) | DeviceName::Vulkan(index)) = name else { return Ok(()) };
    let count = gpus(name)?.len();
    if index < count { Ok(()) } else { Err(OpenDeviceError::NoSuchGpu { device: name, count }) }
}

/// Checks that the device computes in `precision`.
///
/// # Errors
/// [`OpenDeviceError::NoBf16`] for bf16 on a CUDA card older than compute capability 8.0, [`OpenDeviceError::OnlyFp32`] for 16 bits
/// on Vulkan.
pub fn find_precision(name: DeviceName, precision: Precision) -> Result<(), OpenDeviceError> {
    match (name, precision) {
        #[cfg(feature = "cuda")]
        (DeviceName::Cuda(index), Precision::Bf16) => super::cuda::find_bf16(name, index),
        (DeviceName::Vulkan(_), Precision::Bf16 | Precision::Fp16) => {
            Err(OpenDeviceError::OnlyFp32 { device: name })
        }
        _ => Ok(()),
    }
}

/// The first GPU of this build, which has one backend of GPUs. The machine may lack the GPU.
pub fn first_gpu() -> DeviceName {
    if cfg!(feature = "vulkan") { DeviceName::Vulkan(0) } else { DeviceName::Cuda(0) }
}

/// Free bytes of a GPU, if its driver tells; of a Vulkan device, the memory that it has in all. `None` for the CPU.
pub fn free_bytes(device: DeviceName) -> Option<Bytes> {
    match device {
        #[cfg(feature = "vulkan")]
        DeviceName::Vulkan(index) => super::vulkan::memory_bytes(index),
        _ => oomph_advice::out_of_memory::free_bytes(device),
    }
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
    let device = first_gpu();
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

/// The GPUs of the kind of `device` that drivers show to this process, by index. Kernels can be compiled for them.
fn gpus(device: DeviceName) -> Result<Vec<DeviceInfo>, OpenDeviceError> {
    match device {
        #[cfg(feature = "cuda")]
        DeviceName::Cuda(_) => {
            super::cuda::gpus(device).and_then(|gpus| super::cuda::find_compiler(device).map(|()| gpus))
        }
        #[cfg(feature = "vulkan")]
        DeviceName::Vulkan(_) => Ok(super::vulkan::gpus()),
        _ => Err(OpenDeviceError::NotInBuild { device }),
    }
}

/// The libraries that CUDA needs, for [`oomph_doctor::installation`]. `None` in a build without CUDA.
pub fn cuda_libraries() -> Option<oomph_doctor::CudaLibraries> {
    #[cfg(feature = "cuda")]
    return Some(super::cuda::libraries());
    #[cfg(not(feature = "cuda"))]
    None
}

/// What Vulkan needs, for [`oomph_doctor::vulkan`]. `None` in a build without Vulkan.
pub fn vulkan() -> Option<oomph_doctor::Vulkan> {
    #[cfg(feature = "vulkan")]
    return Some(super::vulkan::found());
    #[cfg(not(feature = "vulkan"))]
    None
}

pub(crate) fn has_nccl() -> bool {
    #[cfg(feature = "cuda")]
    return matches!(super::cuda::nccl(), oomph_doctor::Nccl::Found { .. });
    #[cfg(not(feature = "cuda"))]
    false
}

/// Starts the compute threads, and allocates the lasting buffer of every compute thread and of this thread.
///
/// The first larger matrix multiplication of a thread allocates a buffer as large as the L2 cache, and the thread keeps
/// it. Allocated now, it makes the bytes in use independent of the order of the threads.
fn prepare_cpu() {
    static COMPUTE_THREADS: Once = Once::new();
    thread_local! {
        static THIS_THREAD: Cell<bool> = const { Cell::new(false) };
    }
    COMPUTE_THREADS.call_once(|| {
        on_compute_threads(multiply);
    });
    if !THIS_THREAD.replace(true) {
        charge(Account::Device, multiply);
    }
}

/// Allocates the lasting buffers of the threads of `pool`.
pub(crate) fn prepare_pool(pool: &ComputePool) {
    pool.on_every_thread(multiply);
}

/// The smallest matrix multiplication for which gemm allocates the buffer, on one thread.
fn multiply() {
    let ones = Tensor::<2>::ones([64, 64], &Device::flex());
    drop(ones.clone().matmul(ones));
}

/// Why a device failed its trial.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrialError {
    /// The device cannot be opened.
    #[error(transparent)]
    Device(#[from] OpenDeviceError),
    /// The result is wrong.
    #[error("device `{device}` computed {found}, expected {expected}")]
    Wrong {
        /// The device.
        device: DeviceName,
        /// The computed value.
        found: f32,
        /// The right value.
        expected: f32,
    },
}

/// Opens the device and multiplies two small matrices on it. That exercises memory, copies, the kernel compiler and
/// kernels.
///
/// # Errors
/// Where the device cannot be opened, or the result is wrong: the device's thread panics in a kernel, yet continues.
///
/// # Panics
/// Burn panics where CUDA fails, mostly after a panic of the device's thread.
pub fn try_device(name: DeviceName) -> Result<(), TrialError> {
    const SIDE: usize = 64;
    let device = open_device(name)?;
    let ones = Tensor::<2>::ones([SIDE, SIDE], &device);
    // Powers of two are exact in every precision. Unwritten memory may be zero, so the right value is not zero.
    let found: f32 = ones.clone().matmul(ones * 0.5).sum().into_scalar();
    let expected = 0.5 * SIDE.pow(3) as f32;
    if found == expected { Ok(()) } else { Err(TrialError::Wrong { device: name, found, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_computes() {
        assert_eq!(try_device(DeviceName::Cpu), Ok(()));
    }

    #[test]
    #[cfg(not(feature = "cuda"))]
    fn a_device_that_this_build_lacks_is_an_error() {
        let device = DeviceName::Cuda(0);
        assert_eq!(try_device(device), Err(OpenDeviceError::NotInBuild { device }.into()));
    }
}
