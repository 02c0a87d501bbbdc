//! How wide an LSTM may be for its GPU kernels. A build without GPUs knows it too, to plan.

/// The most hidden units that fit into the 48 KiB of shared memory that every CUDA card gives to a cube: forward, that has two
/// copies of a row's hidden units.
pub(crate) const ON_CUDA: usize = 5632;

/// The most that fit into 16 KiB, the least that Vulkan asks of a card.
pub(crate) const ON_VULKAN: usize = 1536;

/// The most hidden units of an LSTM's kernels in this build.
pub const MOST_LSTM_UNITS: usize = if cfg!(feature = "vulkan") { ON_VULKAN } else { ON_CUDA };
