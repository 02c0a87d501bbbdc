//! Our own kernels on a GPU, as custom operations.
//!
//! The kernels themselves are `oomph-gpu-kernels`', which a build without CUDA does not have. Such a build plans for GPUs all
//! the same: it records the operations, with the memory that their kernels allocate.

use burn::tensor::Tensor;

use crate::any_tensor::{AnyTensor, ranked};

/// Runs a [`CustomOp`](crate::custom_op::CustomOp) on a GPU by `$kernel`, from a list of GPU tensors to a list of GPU
/// tensors. On a capture device it records the operation instead, with buffers that the kernel needs while it runs: a list
/// of their elements of 32 bits.
/// Gives the list of outputs.
macro_rules! on_gpu {
    ($operation:expr, $buffers:expr, |$inputs:ident| $kernel:expr) => {{
        let operation: crate::custom_op::CustomOp = $operation;
        if operation.is_recorded() {
            operation.record_with_buffers(&$buffers)
        } else {
            #[cfg(feature = "gpu")]
            {
                let $inputs = crate::gpu::inputs(operation);
                let outputs: Vec<oomph_gpu_kernels::GpuTensor> = $kernel;
                outputs.into_iter().map(crate::gpu::output).collect::<Vec<crate::any_tensor::AnyTensor>>()
            }
            #[cfg(not(feature = "gpu"))]
            // Only a build with CUDA opens a GPU.
            unreachable!("a build without CUDA opens no GPU, and only records what one does")
        }
    }};
}
pub(crate) use on_gpu;

/// The outputs of an operation that has `N`.
///
/// # Panics
/// Panics if it has another number of outputs.
pub(crate) fn outputs<const N: usize>(outputs: Vec<AnyTensor>) -> [AnyTensor; N] {
    // A kernel returns one tensor for each declared output.
    outputs.try_into().expect("the operation has the outputs that it declares")
}

/// The output of an operation that has one, of rank `D`.
pub(crate) fn one<const D: usize>(made: Vec<AnyTensor>) -> Tensor<D> {
    let [output] = outputs(made);
    ranked(output)
}

/// The inputs as a list of known length.
///
/// # Panics
/// Panics if the operation has another number of inputs.
#[cfg(feature = "gpu")]
pub(crate) fn listed<const N: usize>(
    inputs: Vec<oomph_gpu_kernels::GpuTensor>,
) -> [oomph_gpu_kernels::GpuTensor; N] {
    // The caller declared that many.
    inputs.try_into().unwrap_or_else(|_| unreachable!("the operation has the inputs that it declares"))
}

/// The inputs of an operation. Consuming them leaves the kernel the only reference to tensors that nothing else uses.
#[cfg(feature = "gpu")]
pub(crate) fn inputs(operation: crate::custom_op::CustomOp) -> Vec<oomph_gpu_kernels::GpuTensor> {
    let inputs = operation.inputs.into_iter().map(|input| {
        // A policy asks for these kernels on a GPU alone.
        crate::backends::primitive_on::<oomph_gpu_kernels::Gpu>(&input).expect("GPU kernels run on a GPU")
    });
    inputs.collect()
}

/// A plain tensor of a kernel's output.
#[cfg(feature = "gpu")]
pub(crate) fn output(tensor: oomph_gpu_kernels::GpuTensor) -> AnyTensor {
    <oomph_gpu_kernels::Gpu as crate::backends::Plain>::tensor(tensor)
}
