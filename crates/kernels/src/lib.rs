//! Tensor operations with CPU kernels of our own.
//!
//! A kernel makes one pass over memory where Burn's operations make several, and allocates nothing but its outputs and
//! a declared workspace. Every operation has a twin composed of Burn's operations, for other backends: see [`Kernels`].
//! On a capture device an operation is recorded as one, with the memory that its kernel allocates.
//!
//! - [`AnyTensor`]: a tensor whose rank is known at run time.
//! - [`graph`]: the way into and out of Burn's autodiff graph; [`differentiable`] adds a hand-written backward pass to
//!   it.
//! - [`conv`], [`norm`], [`lstm`], [`gru`], [`linear`], [`attention`], [`row_norm`], [`feed_forward`], [`cross_entropy`], [`binary_cross_entropy`] and the
//!   operations below: forward and backward of layers, on plain tensors.
//! - [`offload`]: tensors that lie in host memory while their device does without them.
//! - [`SgdStep`] and [`AdamStep`]: optimizer steps in one pass; [`packed`]: steps with moments of 8 or 16 bits; [`averaged`]: averages over
//!   time.
//!
//! ```
//! use burn::tensor::{DType, Device, Tensor};
//! use oomph_kernels::{Kernels, cast};
//!
//! let thirds = Tensor::<1>::from_floats([1.0 / 3.0, 2.0 / 3.0], &Device::flex());
//! let rounded = cast(thirds, DType::BF16, Kernels::Cpu);
//! assert_eq!(rounded.dtype(), DType::BF16);
//! ```
//!
//! This crate knows no models, layers or parameters: those are `oomph-model`'s.

mod accumulate;
mod activations;
mod added;
mod any_tensor;
pub mod attention;
mod average;
mod backends;
pub mod binary_cross_entropy;
mod blocks;
mod cast;
pub mod conv;
pub mod cross_entropy;
mod custom_op;
mod differentiable;
mod dropout;
pub mod feed_forward;
mod flex_tensor;
mod gpu;
pub mod gradients;
pub mod graph;
pub mod gru;
mod host;
mod indices;
mod interleave;
mod kernels;
pub mod linear;
pub mod lstm;
mod matrix_unit;
pub mod norm;
pub mod offload;
mod optimizer_step;
pub mod packed;
mod panels;
pub mod pool;
mod prefetch;
pub mod recurrent;
mod reduce;
pub mod row_norm;
mod sequence;
mod storage;
mod stored_float;
mod tile;
mod timing;
mod transpose;
#[cfg(test)]
mod truth;
mod uninit;
mod window;
mod workers;

use oomph_core::simd;

pub use accumulate::{RowSums, RowTerms, StepRange};
pub use added::added;
pub use any_tensor::{AnyTensor, ranked};
pub use average::averaged;
pub use cast::{cast, cast_in_graph};
pub use differentiable::{SecondOutput, differentiable};
pub use dropout::{DropoutMask, dropped, dropped_onto};
pub use host::DeviceError;
pub use kernels::Kernels;
pub use optimizer_step::{AdamStep, AdamStepped, AdamTensors, SgdStep, SgdStepped, SgdTensors};
pub use prefetch::leave_caches;
pub use sequence::{place_steps, zeros};
pub use storage::Storage;
pub use timing::{TimedOperation, timed, timed_for};
