use burn::tensor::Tensor;
use oomph_config::DeviceName;

use super::{OpenDeviceError, open_device};

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
        assert_eq!(try_device(device), Err(OpenDeviceError::NoCudaInBuild { device }.into()));
    }
}
