//! GPU kernels of our own, written in CubeCL.
//!
//! Each makes one launch where Burn's operations make many, and allocates nothing but its outputs. They are the twins of
//! the CPU kernels in `oomph-kernels`: the same inputs, outputs and formulas. Tensors are contiguous and row-major, and images may lie
//! channels-last in memory.
//! 16-bit floats are a storage format: values become 32 bits in registers.
//!
//! ```
//! use oomph_gpu_kernels::partial_sums;
//!
//! // The gradient of a weight of 64 × 64 kernels, summed over 3,000 pixels: three cubes share the pixels of each tile.
//! assert_eq!(partial_sums([64, 64, 3, 3], 3000), 3);
//! ```
//!
//! The crate knows no autodiff graph and no dispatch: those are `oomph-kernels`'. Without the features `cuda` and `vulkan` it has no
//! kernels, only what a plan needs to know of them.

#[cfg(feature = "vulkan")]
mod adapters;
#[cfg(feature = "gpu")]
mod batches;
#[cfg(feature = "gpu")]
mod cache;
#[cfg(feature = "gpu")]
mod cast;
mod channel_sums;
#[cfg(feature = "gpu")]
mod compilations;
#[cfg(feature = "gpu")]
mod conv;
#[cfg(feature = "gpu")]
pub mod cross_entropy;
#[cfg(feature = "gpu")]
mod dropout;
#[cfg(feature = "gpu")]
pub mod gradients;
#[cfg(feature = "gpu")]
mod image;
#[cfg(feature = "gpu")]
mod launch;
#[cfg(feature = "gpu")]
pub mod lstm;
mod lstm_units;
#[cfg(feature = "gpu")]
pub mod norm;
#[cfg(feature = "gpu")]
pub mod optimizer_step;
#[cfg(feature = "gpu")]
pub mod packed_step;
mod partial_sums;
#[cfg(feature = "gpu")]
mod reduce;
#[cfg(feature = "gpu")]
mod sequence;
#[cfg(feature = "gpu")]
mod tensor;
mod tensor_sums;

#[cfg(feature = "vulkan")]
pub use adapters::{Adapter, AdapterKind, adapters};
#[cfg(feature = "gpu")]
pub use cache::keep_compiled_kernels;
#[cfg(feature = "gpu")]
pub use cast::cast;
pub use channel_sums::channel_partial_sums;
#[cfg(feature = "gpu")]
pub use compilations::{compiled_kernels, count_compiled_kernels};
#[cfg(feature = "gpu")]
pub use conv::{conv2d, conv2d_input_backward, conv2d_weight_backward};
#[cfg(feature = "gpu")]
pub use dropout::{DropoutMask, dropped};
pub use lstm_units::MOST_LSTM_UNITS;
pub use partial_sums::partial_sums;
#[cfg(feature = "gpu")]
pub use sequence::{place_steps, zeros};
#[cfg(feature = "gpu")]
pub use tensor::{Gpu, GpuRuntime, GpuTensor, contiguous};
pub use tensor_sums::tensor_sums;
