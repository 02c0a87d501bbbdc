/// Whose allocator is planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Burn's Flex, on this machine's processor.
    Cpu {
        /// Compute threads: each has workspaces of its own.
        threads: usize,
    },
    /// Burn's CUDA backend.
    Cuda,
}

impl Backend {
    /// What is to be left free beside a planned peak, as a share of it, so that it fits.
    ///
    /// The rules for the CPU are held against the meter (docs/planning.md): no plan was ever 1 % too low. Those for CUDA
    /// were never held against a GPU.
    pub fn margin(self) -> f64 {
        match self {
            Self::Cpu { .. } => 0.01,
            Self::Cuda => 0.15,
        }
    }

    /// What a plan may be too high by, as a share of it. What is above a limit by more does not fit.
    ///
    /// On the CPU 1.8 % was the most that was ever seen (docs/planning.md); for CUDA it is a guess.
    pub fn error(self) -> f64 {
        match self {
            Self::Cpu { .. } => 0.02,
            Self::Cuda => 0.15,
        }
    }

    /// Whether the rules were held against measurements.
    pub fn is_verified(self) -> bool {
        match self {
            Self::Cpu { .. } => true,
            Self::Cuda => false,
        }
    }
}
