//! The names of devices.

use std::{fmt, str::FromStr};

/// A device by name: `cpu`, `cuda:N` or `vulkan:N`; without a number it is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceName {
    /// The processor of this machine.
    Cpu,
    /// An NVIDIA GPU by its index, from 0.
    Cuda(usize),
    /// A GPU of any vendor by its index among those of Vulkan, or of Metal on a Mac, from 0.
    Vulkan(usize),
}

/// The error of [`DeviceName::from_str`]: the text is not the name of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a device; expected `cpu`, `cuda:N` or `vulkan:N`")]
pub struct ParseDeviceError {
    text: String,
}

impl DeviceName {
    /// Whether these are the CPU and GPUs together.
    pub fn are_mixed(devices: &[Self]) -> bool {
        devices.contains(&Self::Cpu) && devices.iter().any(|device| *device != Self::Cpu)
    }
}

impl FromStr for DeviceName {
    type Err = ParseDeviceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseDeviceError { text: text.to_owned() };
        match text.trim() {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            "vulkan" => Ok(Self::Vulkan(0)),
            other => {
                let (kind, index) = other.split_once(':').ok_or_else(refused)?;
                // `parse` alone would also take `+1`.
                let digits = index.bytes().all(|byte| byte.is_ascii_digit());
                let index = index.parse().ok().filter(|_| digits).ok_or_else(refused)?;
                match kind {
                    "cuda" => Ok(Self::Cuda(index)),
                    "vulkan" => Ok(Self::Vulkan(index)),
                    _ => Err(refused()),
                }
            }
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.pad("cpu"),
            Self::Cuda(index) => f.pad(&format!("cuda:{index}")),
            Self::Vulkan(index) => f.pad(&format!("vulkan:{index}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_and_written() {
        for (text, device, written) in [
            ("cpu", DeviceName::Cpu, "cpu"),
            ("cuda", DeviceName::Cuda(0), "cuda:0"),
            (" cuda:3 ", DeviceName::Cuda(3), "cuda:3"),
            ("vulkan", DeviceName::Vulkan(0), "vulkan:0"),
            ("vulkan:1", DeviceName::Vulkan(1), "vulkan:1"),
        ] {
            assert_eq!(text.parse(), Ok(device));
            assert_eq!(device.to_string(), written);
        }
    }

    #[test]
    fn the_cpu_and_a_gpu_are_mixed() {
        use DeviceName::{Cpu, Cuda, Vulkan};
        assert!(DeviceName::are_mixed(&[Cuda(0), Cpu]) && DeviceName::are_mixed(&[Cpu, Vulkan(0)]));
        assert!(!DeviceName::are_mixed(&[Cpu, Cpu]) && !DeviceName::are_mixed(&[Cuda(0), Cuda(1)]));
    }

    #[test]
    fn what_is_not_a_device_is_refused() {
        for text in [
            "",
            "gpu",
            "cuda:",
            "cuda:-1",
            "cuda:+1",
            "cpu:0",
            "CPU",
            "cuda:99999999999999999999",
            "vulkan:",
            "metal:0",
        ] {
            assert!(text.parse::<DeviceName>().is_err(), "{text}");
        }
    }
}
