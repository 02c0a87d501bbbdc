use burn::tensor::{Device, Tensor};
use burn_backend::InstallMemoryPoolsError;
use oomph_config::DeviceName;
use serde::Serialize;

/// A device that this build or this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The program was built without CUDA.
    #[error("device `{device}` needs CUDA, which this build of oomph does not include")]
    NoCudaInBuild {
        /// The device that was asked for.
        device: DeviceName,
    },
    /// A library that CUDA needs cannot be loaded.
    #[error("device `{device}` needs `{library}`, which cannot be loaded: {reason}")]
    Library {
        /// The device that was asked for.
        device: DeviceName,
        /// The file name of the library.
        library: &'static str,
        /// What the loader said.
        reason: String,
    },
    /// The driver is there and does not work.
    #[error("device `{device}`: the CUDA driver failed with code {code}")]
    Driver {
        /// The device that was asked for.
        device: DeviceName,
        /// The code of `cuInit` or of a query (`CUresult`).
        code: i32,
    },
    /// The allocator refused the layout of its pools.
    #[error("device `{device}` refused the layout of `memory.pool`: {reason}")]
    Pools {
        /// The device that was asked for.
        device: DeviceName,
        /// Why.
        reason: InstallMemoryPoolsError,
    },
    /// There is no GPU of that index.
    #[error("device `{device}` does not exist; {}", counted(*count))]
    NoSuchGpu {
        /// The device that was asked for.
        device: DeviceName,
        /// How many there are.
        count: usize,
    },
}

fn counted(count: usize) -> String {
    match count {
        0 => "the CUDA driver sees no GPU".into(),
        1 => "the CUDA driver sees one GPU, `cuda:0`".into(),
        _ => format!("the CUDA driver sees {count} GPUs, `cuda:0` to `cuda:{}`", count - 1),
    }
}

impl DeviceError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoCudaInBuild { .. } => {
                "build with `--features cuda`, as in `cargo run --release --features cuda -- train …`, \
                 or use `--devices cpu`"
                    .into()
            }
            Self::Library { library: "libcuda.so.1", .. } => {
                "it comes with the NVIDIA driver: is there a GPU in this machine? `--devices cpu` works without".into()
            }
            Self::Library { library, .. } => {
                format!("it comes with the CUDA toolkit; put the folder of `{library}` into LD_LIBRARY_PATH")
            }
            Self::Pools { .. } => "without `memory.pool` it is as Burn starts it".into(),
            Self::Driver { .. } => "`nvidia-smi` says more; a restart of the machine may help".into(),
            Self::NoSuchGpu { .. } => {
                "`oomph devices` lists what there is; CUDA_VISIBLE_DEVICES may hide some".into()
            }
        })
    }
}

/// The device of that name, off autodiff.
///
/// # Errors
/// Where this build or machine lacks it. On CUDA its libraries are looked for first, since Burn panics without them.
pub fn open_device(name: DeviceName) -> Result<Device, DeviceError> {
    match name {
        DeviceName::Cpu => {
            crate::cpu::prepare();
            Ok(Device::flex())
        }
        DeviceName::Cuda(index) => open_cuda(name, index),
    }
}

/// A device that does not compute as it must.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrialError {
    /// It cannot be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// It computes something else.
    #[error("device `{device}` computed {found} where {expected} is right")]
    Wrong {
        /// The device.
        device: DeviceName,
        /// What it computed.
        found: f32,
        /// What is right.
        expected: f32,
    },
}

/// Opens the device and lets it multiply two small matrices, so that everything a training needs has worked once:
/// memory, copies, the compiler of kernels and kernels.
///
/// # Errors
/// Where it cannot be opened, or computes something else, as where its thread panicked at a kernel and went on.
///
/// # Panics
/// Burn panics where CUDA fails, mostly at what another thread panicked at before.
pub fn try_device(name: DeviceName) -> Result<(), TrialError> {
    const SIDE: usize = 64;
    let device = open_device(name)?;
    let ones = Tensor::<2>::ones([SIDE, SIDE], &device);
    // Powers of two: exact in every precision. Memory that no kernel wrote to may be zero, so that zero is not right.
    let found: f32 = ones.clone().matmul(ones * 0.5).sum().into_scalar();
    let expected = 0.5 * SIDE.pow(3) as f32;
    if found == expected { Ok(()) } else { Err(TrialError::Wrong { device: name, found, expected }) }
}

/// Whether there is a device of that name, without opening it: one that is open takes memory of it.
///
/// # Errors
/// Where this build or machine lacks it.
pub fn find_device(name: DeviceName) -> Result<(), DeviceError> {
    match name {
        DeviceName::Cpu => Ok(()),
        DeviceName::Cuda(index) => find_cuda(name, index),
    }
}

#[cfg(not(feature = "cuda"))]
fn find_cuda(device: DeviceName, _index: usize) -> Result<(), DeviceError> {
    Err(DeviceError::NoCudaInBuild { device })
}

#[cfg(feature = "cuda")]
fn find_cuda(device: DeviceName, index: usize) -> Result<(), DeviceError> {
    let gpus = crate::cuda::gpus(device)?;
    crate::cuda::find_compiler(device)?;
    if index >= gpus.len() {
        return Err(DeviceError::NoSuchGpu { device, count: gpus.len() });
    }
    Ok(())
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(device: DeviceName, _index: usize) -> Result<Device, DeviceError> {
    Err(DeviceError::NoCudaInBuild { device })
}

#[cfg(feature = "cuda")]
fn open_cuda(device: DeviceName, index: usize) -> Result<Device, DeviceError> {
    find_cuda(device, index).map(|()| Device::cuda(index))
}

/// A device as `oomph devices` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceInfo {
    /// Its name for `--devices`.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Bytes of memory: of the card, or what the machine and its cgroup leave to this process.
    pub memory_bytes: oomph_core::Bytes,
}

/// The devices of this machine that this build can use, and why there are no GPUs among them where there are none.
pub fn list_devices() -> (Vec<DeviceInfo>, Option<DeviceError>) {
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
fn list_cuda() -> Result<Vec<DeviceInfo>, DeviceError> {
    Err(DeviceError::NoCudaInBuild { device: DeviceName::Cuda(0) })
}

#[cfg(feature = "cuda")]
fn list_cuda() -> Result<Vec<DeviceInfo>, DeviceError> {
    let first = DeviceName::Cuda(0);
    let gpus = crate::cuda::gpus(first)?;
    crate::cuda::find_compiler(first)?;
    match gpus.is_empty() {
        true => Err(DeviceError::NoSuchGpu { device: first, count: 0 }),
        false => Ok(gpus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_computes() {
        assert_eq!(try_device(DeviceName::Cpu), Ok(()));
    }

    #[test]
    #[cfg(not(feature = "cuda"))]
    fn a_device_that_this_build_lacks_is_an_error() {
        let device = DeviceName::Cuda(0);
        assert_eq!(try_device(device), Err(DeviceError::NoCudaInBuild { device }.into()));
    }
}
