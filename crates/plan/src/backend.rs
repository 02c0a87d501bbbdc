/// The backend whose allocator is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Burn's Flex, on the CPU of this machine.
    Cpu {
        /// Compute threads, each with its own workspaces.
        threads: usize,
    },
    /// Burn's CUDA backend.
    Cuda,
    /// Burn's WGPU backend with shaders in WGSL, on Vulkan or Metal.
    Vulkan,
}

impl Backend {
    /// The safety margin above a planned peak, as a share of it.
    ///
    /// The CPU's rules are tested against the meter (docs/reference/planning-accuracy.md): a plan is 1 % too low or more only
    /// for some trainings of a few MiB. CUDA's were tested on an H100 and on simulated GPUs (the same page); a full card loses
    /// up to 1 % of its memory to fragmentation within the driver.
    pub fn margin(self) -> f64 {
        match self {
            Self::Cpu { .. } => 0.01,
            Self::Cuda | Self::Vulkan => 0.02,
        }
    }

    /// The error by which a plan may be too high, as a share of it. A plan that exceeds a limit by more does not fit.
    ///
    /// On the CPU the largest error seen was 1.8 %, on GPUs it was less (docs/reference/planning-accuracy.md).
    pub fn error(self) -> f64 {
        match self {
            Self::Cpu { .. } => 0.02,
            Self::Cuda | Self::Vulkan => 0.02,
        }
    }

    /// Whether the rules were tested against measurements on such a device.
    pub fn is_verified(self) -> bool {
        self.caveat().is_none()
    }

    /// What messages say of a plan whose rules no measurement verified.
    pub fn caveat(self) -> Option<&'static str> {
        match self {
            Self::Cpu { .. } | Self::Cuda => None,
            Self::Vulkan => Some("Vulkan estimate, not yet checked on hardware"),
        }
    }
}
