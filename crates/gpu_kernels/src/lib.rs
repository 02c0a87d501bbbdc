//! GPU kernels of our own, written in CubeCL.
//!
//! Each makes one launch where Burn's operations make many, and allocates nothing but its outputs. They are the twins of
//! the CPU kernels in `oomph-kernels`: the same inputs, outputs and formulas. Tensors are contiguous and row-major.
//! 16-bit floats are a storage format: values become 32 bits in registers.
//!
//! The crate knows no autodiff graph and no dispatch: those are `oomph-kernels`'. Without the feature `cuda` it is empty.

#![cfg(feature = "cuda")]

mod lstm;
mod tensor;

pub use lstm::{
    LstmEnd, LstmGradients, LstmOutputs, LstmStart, LstmSteps, lstm_backward, lstm_forward,
    lstm_input_backward,
};
pub use tensor::GpuTensor;
