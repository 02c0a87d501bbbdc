//! The names of devices.

use std::{fmt, str::FromStr};

/// A device by name: `cpu` or `cuda:N`; `cuda` is `cuda:0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceName {
    /// The processor of this machine.
    Cpu,
    /// An NVIDIA GPU by its index, from 0.
    Cuda(usize),
    /// A GPU by its index among those that Vulkan shows, from 0.
    Vulkan(usize),
}

/// The error of [`DeviceName::from_str`]: the text is not the name of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a device; expected `cpu`, `cuda` or `cuda:N`")]
pub struct ParseDeviceError {
    text: String,
}

impl FromStr for DeviceName {
    type Err = ParseDeviceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseDeviceError { text: text.to_owned() };
        match text.trim() {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            "vulkan" | "vulkan:0" => Ok(Self::Vulkan(0)),
            other => {
                let index = other.strip_prefix("cuda:").ok_or_else(refused)?;
                // `parse` alone would also take `+1`.
                let digits = index.bytes().all(|byte| byte.is_ascii_digit());
                index.parse().ok().filter(|_| digits).map(Self::Cuda).ok_or_else(refused)
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
        ] {
            assert_eq!(text.parse(), Ok(device));
            assert_eq!(device.to_string(), written);
        }
    }

    #[test]
    fn what_is_not_a_device_is_refused() {
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:+1", "cpu:0", "CPU", "cuda:99999999999999999999"] {
            assert!(text.parse::<DeviceName>().is_err(), "{text}");
        }
    }
}
