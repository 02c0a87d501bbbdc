//! The expected allocations of Burn's CUDA backend (burn-cubecl 0.22.0-pre.3 and its cubecl). **Not verified**: the rules are
//! read from the sources and were never tested on a GPU, so plans for CUDA have a margin.
//!
//! - Allocations are rounded up to [`ALIGNMENT`].
//! - Views and element-wise operations are as on the CPU: views make no copy, and an operation is written into an
//!   operand that nobody else refers to. Chains that fusion makes one kernel of have the same peak, since their links
//!   live no longer than one operation.
//! - A convolution and its backward passes read operands in channels-last order and write their output so: a copy of
//!   each that has another order, for the time of the kernel.
//! - Matrix products need nothing beside their output.
//!
//! A plan does not contain the driver's context: it is no tensor, and the catalogue of GPUs subtracts it from the usable
//! memory.

use burn_ir::{
    BaseOperationIr as Base, FloatOperationIr, ModuleOperationIr as Module, NumericOperationIr as Numeric,
    OperationIr,
};

use crate::{
    allocator_sim::{AllocatorSim, element_bytes},
    flex::Flex,
};

/// Allocations are rounded up to this multiple, the slice size of cubecl's pools.
pub(crate) const ALIGNMENT: u64 = 512;

/// The CPU's rules, for sharing tensors.
const SHARED: Flex = Flex::without_buffers();

/// Plays one operation: takes its inputs, puts its outputs.
pub(crate) fn run(m: &mut AllocatorSim, operation: &OperationIr) {
    match operation {
        OperationIr::Module(module) => kernel(m, operation, is_convolution(module)),
        OperationIr::Float(_, FloatOperationIr::Matmul(_))
        | OperationIr::NumericFloat(_, Numeric::ArgMax(_) | Numeric::ArgMin(_))
        | OperationIr::NumericInt(_, Numeric::ArgMax(_) | Numeric::ArgMin(_))
        | OperationIr::BaseFloat(Base::Empty(_) | Base::Zeros(_))
        | OperationIr::BaseInt(Base::Empty(_) | Base::Zeros(_))
        | OperationIr::BaseBool(Base::Empty(_) | Base::Zeros(_)) => kernel(m, operation, false),
        other => SHARED.run(m, other),
    }
}

fn is_convolution(module: &Module) -> bool {
    matches!(
        module,
        Module::Conv1d(_)
            | Module::Conv1dXBackward(_)
            | Module::Conv1dWeightBackward(_)
            | Module::Conv2d(_)
            | Module::Conv2dXBackward(_)
            | Module::Conv2dWeightBackward(_)
            | Module::Conv3d(_)
            | Module::Conv3dXBackward(_)
            | Module::Conv3dWeightBackward(_)
            | Module::ConvTranspose1d(_)
            | Module::ConvTranspose2d(_)
            | Module::ConvTranspose3d(_)
    )
}

/// Allocates outputs beside inputs, and a copy of each while the kernel runs if it `reorders` them.
fn kernel(m: &mut AllocatorSim, operation: &OperationIr, reorders: bool) {
    let inputs = m.inputs(operation);
    m.allocate_outputs(operation.outputs());
    if reorders {
        let tensors = operation.inputs().chain(operation.outputs());
        let copies: u64 = tensors.map(|ir| ir.shape.num_elements() as u64 * element_bytes(ir.dtype)).sum();
        let copies = m.workspace(copies);
        m.release(copies);
    }
    m.release_all(inputs);
}
