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
//! The crate knows no autodiff graph and no dispatch: those are `oomph-kernels`'. Without the feature `cuda` it has no
//! kernels, only what a plan needs to know of them.

#[cfg(feature = "cuda")]
mod batches;
#[cfg(feature = "cuda")]
mod cache;
#[cfg(feature = "cuda")]
mod cast;
mod channel_sums;
#[cfg(feature = "cuda")]
mod compilations;
#[cfg(feature = "cuda")]
mod conv;
#[cfg(feature = "cuda")]
pub mod cross_entropy;
#[cfg(feature = "cuda")]
mod dropout;
#[cfg(feature = "cuda")]
pub mod gradients;
#[cfg(feature = "cuda")]
mod image;
#[cfg(feature = "cuda")]
mod launch;
#[cfg(feature = "cuda")]
pub mod lstm;
mod lstm_units;
#[cfg(feature = "cuda")]
pub mod norm;
#[cfg(feature = "cuda")]
pub mod optimizer_step;
mod partial_sums;
#[cfg(feature = "cuda")]
mod reduce;
#[cfg(feature = "cuda")]
mod sequence;
#[cfg(feature = "cuda")]
mod tensor;
mod tensor_sums;

#[cfg(feature = "cuda")]
pub use cache::keep_compiled_kernels;
#[cfg(feature = "cuda")]
pub use cast::cast;
pub use channel_sums::channel_partial_sums;
#[cfg(feature = "cuda")]
pub use compilations::{compiled_kernels, count_compiled_kernels};
#[cfg(feature = "cuda")]
pub use conv::{conv2d, conv2d_input_backward, conv2d_weight_backward};
#[cfg(feature = "cuda")]
pub use dropout::{DropoutMask, dropped};
pub use lstm_units::MOST_LSTM_UNITS;
pub use partial_sums::partial_sums;
#[cfg(feature = "cuda")]
pub use sequence::{place_steps, zeros};
#[cfg(feature = "cuda")]
pub use tensor::{GpuRuntime, GpuTensor, contiguous};
pub use tensor_sums::tensor_sums;
