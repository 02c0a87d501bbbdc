use burn_backend::InstallMemoryPoolsError;
use oomph_config::DeviceName;

/// Why a device cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenDeviceError {
    /// The program was built without the device's backend.
    #[error("device `{device}` needs {}, which this build of oomph does not include", backend(*device))]
    NotInBuild {
        /// The requested device.
        device: DeviceName,
    },
    /// A library that CUDA needs cannot be loaded.
    #[error("device `{device}` needs `{library}`, which cannot be loaded: {reason}")]
    Library {
        /// The requested device.
        device: DeviceName,
        /// The file name of the library.
        library: &'static str,
        /// The loader's message.
        reason: String,
    },
    /// The driver is installed but fails.
    #[error("device `{device}`: the CUDA driver failed with code {code}")]
    Driver {
        /// The requested device.
        device: DeviceName,
        /// The `CUresult` of `cuInit` or of a query.
        code: i32,
    },
    /// The allocator refused the pool layout.
    #[error("device `{device}` refused the pool layout of `memory.pool`: {reason}")]
    Pools {
        /// The requested device.
        device: DeviceName,
        /// The allocator's reason.
        reason: InstallMemoryPoolsError,
    },
    /// The GPU has no products of bf16.
    #[error(
        "device `{device}` has compute capability {major}.{minor} and no products of bf16, which begin with 8.0"
    )]
    NoBf16 {
        /// The requested device.
        device: DeviceName,
        /// Its compute capability.
        major: i32,
        /// The second part of that.
        minor: i32,
    },
    /// Vulkan's shaders compute in 32 bits alone.
    #[error(
        "device `{device}` trains in fp32 alone: Vulkan's shaders have no bf16, and sum products of fp16 in 16 bits"
    )]
    OnlyFp32 {
        /// The requested device.
        device: DeviceName,
    },
    /// No GPU has that index.
    #[error("device `{device}` does not exist; {}", counted(*device, *count))]
    NoSuchGpu {
        /// The requested device.
        device: DeviceName,
        /// The GPUs that the driver sees.
        count: usize,
    },
}

/// What a GPU is used by.
fn backend(device: DeviceName) -> &'static str {
    if matches!(device, DeviceName::Vulkan(_)) { "Vulkan" } else { "CUDA" }
}

fn counted(device: DeviceName, count: usize) -> String {
    let (viewer, name) = match device {
        DeviceName::Vulkan(_) => ("Vulkan", "vulkan"),
        _ => ("the CUDA driver", "cuda"),
    };
    match count {
        0 => format!("{viewer} sees no GPU"),
        1 => format!("{viewer} sees one GPU, `{name}:0`"),
        _ => format!("{viewer} sees {count} GPUs, `{name}:0` to `{name}:{}`", count - 1),
    }
}

impl OpenDeviceError {
    /// A command or a setting that helps.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotInBuild { device } => {
                let feature = backend(*device).to_lowercase();
                format!(
                    "build with `--features {feature}`, as in `cargo run --release --features {feature} -- train …`, \
                     or use `--devices cpu`"
                )
            }
            Self::Library { library: "libcuda.so.1", .. } => {
                "install the NVIDIA driver, which has it, or use `--devices cpu`".into()
            }
            Self::Library { library, .. } => {
                format!(
                    "install the CUDA toolkit, which has it, and add the folder of `{library}` to `LD_LIBRARY_PATH`"
                )
            }
            Self::Pools { .. } => "remove `memory.pool` to use the default pool layout".into(),
            Self::NoBf16 { .. } => "set `memory.precision` to `fp16` or `fp32`".into(),
            Self::OnlyFp32 { .. } => "set `memory.precision` to `fp32`".into(),
            Self::Driver { .. } => "run `nvidia-smi` for details; restarting the machine may help".into(),
            Self::NoSuchGpu { device: DeviceName::Vulkan(_), count: 0 } => {
                "install the GPU's Vulkan driver and the loader `libvulkan.so.1`, or use `--devices cpu`"
                    .into()
            }
            Self::NoSuchGpu { device: DeviceName::Vulkan(_), .. } => {
                "run `oomph devices` to list the GPUs".into()
            }
            Self::NoSuchGpu { .. } => {
                "run `oomph devices` to list the GPUs; `CUDA_VISIBLE_DEVICES` may hide some".into()
            }
        })
    }
}
