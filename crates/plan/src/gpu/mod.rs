//! The allocations of Burn's GPU backends, eager and untuned (burn-cubecl 0.22.0-pre.3 with its cubecl and cubek), for each
//! operation. The rules are read from the sources. They were compared with an H100
//! (`tools/gpu_card.py`), with a simulated CUDA driver (`cargo xtask gpu pages`), and with Vulkan on a processor (`cargo xtask
//! vulkan`).
//!
//! - On CUDA, rows of most tensors are padded ([`layouts`]); reductions and our own kernels write packed rows. On Vulkan all
//!   rows are packed, and booleans have 4 bytes.
//! - An element-wise operation writes into an operand without other references, whatever its layout, unless elements of
//!   it share a place ([`elementwise`]).
//! - Views share storage. Reshaping copies padded and permuted tensors where dimensions join; slicing copies unless its
//!   ends are aligned ([`views`]).
//! - Convolutions and pooling read and write images channels-last, and copy those in another order for the time of the
//!   kernel ([`conv`], [`images`]).
//! - Matrix products need only their output; an operand that is no matrix in memory is copied ([`products`]).
//! - Operations with oomph's own kernels declare their allocations; normalisation keeps the order of its images ([`custom`]).
//! - On CUDA, kernels' arguments that are not passed directly stay allocated ([`on_cuda`]).
//!
//! A plan does not contain the driver's context: it is no tensor, and the catalogue of GPUs subtracts it from the usable
//! memory.

mod conv;
mod custom;
mod elementwise;
mod images;
mod layouts;
mod lstm;
mod products;
mod reduce;
mod views;
mod writes;

#[cfg(test)]
mod tests;

use burn_ir::{
    BaseOperationIr, BoolOperationIr, FloatOperationIr, IntOperationIr, ModuleOperationIr,
    NumericOperationIr, OperationIr,
};

use crate::{
    allocator_sim::{AllocatorSim, Handle},
    layout::{Rows, TensorRules},
    pools::{Grain, PoolSim},
};

/// The allocator of a CUDA card with these pools. It keeps the shapes and strides of padded and permuted tensors, which kernels
/// read from memory (cubecl-runtime `metadata_cache.rs`). Each combination has 512 bytes; trainings on a simulated driver had 17
/// to 32.
pub(crate) fn on_cuda(pools: PoolSim) -> AllocatorSim {
    let mut sim = AllocatorSim::on_gpu(pools, TensorRules { rows: Rows::Padded, bool_bytes: 1 });
    sim.keep(32 * Grain::CUDA.alignment, "kernel arguments");
    sim
}

/// The allocator of Vulkan with these pools. Arguments of kernels have memory apart (cubecl-wgpu `mem_manager.rs`), and WGSL has
/// no booleans in memory.
pub(crate) fn on_vulkan(pools: PoolSim) -> AllocatorSim {
    AllocatorSim::on_gpu(pools, TensorRules { rows: Rows::Packed, bool_bytes: 4 })
}

/// Plays one operation: takes its inputs, puts its outputs.
pub(crate) fn run(m: &mut AllocatorSim, operation: &OperationIr) {
    match operation {
        OperationIr::BaseFloat(op) | OperationIr::BaseInt(op) | OperationIr::BaseBool(op) => {
            base(m, operation, op);
        }
        OperationIr::NumericFloat(_, op) | OperationIr::NumericInt(_, op) => numeric(m, operation, op),
        OperationIr::Float(_, op) => float(m, operation, op),
        OperationIr::Int(op) => int(m, operation, op),
        OperationIr::Bool(op) => bool(m, operation, op),
        OperationIr::Activation(op) => elementwise::activation(m, op),
        OperationIr::Module(op) => module(m, operation, op),
        OperationIr::Custom(op) => custom::run(m, op),
        OperationIr::Init(_) | OperationIr::Distributed(_) | OperationIr::Drop(_) => fresh(m, operation),
    }
}

/// Allocates the outputs beside the inputs, which are read in any layout.
fn fresh(m: &mut AllocatorSim, operation: &OperationIr) {
    let inputs = m.inputs(operation);
    m.allocate_outputs(operation.outputs());
    m.release_all(inputs);
}

/// A new tensor in place of `before`.
fn instead(m: &mut AllocatorSim, before: Handle, shape: &[usize]) -> Handle {
    let after = m.allocate(shape, before.dtype);
    m.release(before);
    after
}

fn base(m: &mut AllocatorSim, operation: &OperationIr, base: &BaseOperationIr) {
    use BaseOperationIr as B;
    match base {
        B::Reshape(op) => views::reshape(m, &op.input, &op.out),
        B::SwapDims(op) => views::view(m, &op.input, &op.out, |of| of.clone().swapped(op.dim1, op.dim2)),
        B::Permute(op) => views::view(m, &op.input, &op.out, |of| of.permuted(&op.axes)),
        B::Expand(op) => views::view(m, &op.input, &op.out, |of| of.expanded(&op.out.shape[..])),
        B::Slice(op) => views::slice(m, op),
        B::RepeatDim(op) => views::repeat(m, op),
        B::Cast(op) if op.input.dtype == op.out.dtype => views::view(m, &op.input, &op.out, Clone::clone),
        B::SliceAssign(op) => writes::into(m, &op.tensor, [&op.value], &op.out),
        B::SelectAssign(op) => writes::into(m, &op.tensor, [&op.indices, &op.value], &op.out),
        B::Scatter(op) => writes::into(m, &op.tensor, [&op.indices, &op.value], &op.out),
        B::ScatterNd(op) => writes::into(m, &op.data, [&op.indices, &op.values], &op.out),
        B::MaskFill(op) => elementwise::masked(m, &op.tensor, &op.mask, &op.out),
        B::MaskWhere(op) => {
            let mask = m.input(&op.mask);
            elementwise::binary(m, &op.tensor, &op.value, &op.out);
            m.release(mask);
        }
        B::Equal(op) | B::NotEqual(op) => elementwise::binary(m, &op.lhs, &op.rhs, &op.out),
        B::EqualElem(op) | B::NotEqualElem(op) => elementwise::unary(m, &op.lhs, &op.out),
        B::All(op) | B::Any(op) => reduce::all(m, &op.input, &op.out),
        B::AllDim(op) | B::AnyDim(op) => reduce::along(m, &op.input, &op.out),
        B::Flip(_)
        | B::Unfold(_)
        | B::Select(_)
        | B::Gather(_)
        | B::GatherNd(_)
        | B::Cat(_)
        | B::Cast(_)
        | B::Empty(_)
        | B::Ones(_)
        | B::Zeros(_) => fresh(m, operation),
    }
}

fn numeric(m: &mut AllocatorSim, operation: &OperationIr, numeric: &NumericOperationIr) {
    use NumericOperationIr as N;
    match numeric {
        N::Add(op)
        | N::Sub(op)
        | N::Mul(op)
        | N::Div(op)
        | N::Rem(op)
        | N::Powi(op)
        | N::Greater(op)
        | N::GreaterEqual(op)
        | N::Lower(op)
        | N::LowerEqual(op) => elementwise::binary(m, &op.lhs, &op.rhs, &op.out),
        // `oomph_model::autodiff` records it for gradients that the CPU copies out of larger storage.
        N::MulScalar(op) if op.rhs.elem::<f64>() == 1.0 => views::view(m, &op.lhs, &op.out, Clone::clone),
        N::AddScalar(op)
        | N::SubScalar(op)
        | N::MulScalar(op)
        | N::DivScalar(op)
        | N::RemScalar(op)
        | N::ClampMin(op)
        | N::ClampMax(op)
        | N::GreaterElem(op)
        | N::GreaterEqualElem(op)
        | N::LowerElem(op)
        | N::LowerEqualElem(op) => elementwise::unary(m, &op.lhs, &op.out),
        N::PowiScalar(op) => elementwise::power(m, op),
        N::Clamp(op) => elementwise::unary(m, &op.tensor, &op.out),
        N::Abs(op) | N::Neg(op) | N::Sign(op) => elementwise::unary(m, &op.input, &op.out),
        N::Sum(op) => reduce::sum(m, &op.input, &op.out),
        N::Mean(op) | N::Prod(op) | N::Max(op) | N::Min(op) | N::MaxAbs(op) => {
            reduce::all(m, &op.input, &op.out);
        }
        N::SumDim(op)
        | N::MeanDim(op)
        | N::ProdDim(op)
        | N::ArgMax(op)
        | N::ArgMin(op)
        | N::ArgTopK(op)
        | N::TopK(op)
        | N::MaxDim(op)
        | N::MinDim(op)
        | N::MaxAbsDim(op) => reduce::along(m, &op.input, &op.out),
        N::TopKWithIndices(_) | N::MaxDimWithIndices(_) | N::MinDimWithIndices(_) => {
            reduce::packed(m, operation);
        }
        _ => fresh(m, operation),
    }
}

fn float(m: &mut AllocatorSim, operation: &OperationIr, float: &FloatOperationIr) {
    use FloatOperationIr as F;
    match float {
        F::Exp(op)
        | F::Log(op)
        | F::Log1p(op)
        | F::Erf(op)
        | F::Sqrt(op)
        | F::Cos(op)
        | F::Cosh(op)
        | F::Sin(op)
        | F::Sinh(op)
        | F::Tan(op)
        | F::Tanh(op)
        | F::ArcCos(op)
        | F::ArcCosh(op)
        | F::ArcSin(op)
        | F::ArcSinh(op)
        | F::ArcTan(op)
        | F::ArcTanh(op)
        | F::Round(op)
        | F::Floor(op)
        | F::Ceil(op)
        | F::Trunc(op)
        | F::Recip(op) => elementwise::unary(m, &op.input, &op.out),
        F::PowfScalar(op) => elementwise::power(m, op),
        F::Powf(op) | F::ArcTan2(op) | F::Hypot(op) => elementwise::binary(m, &op.lhs, &op.rhs, &op.out),
        F::Matmul(op) => products::matmul(m, op),
        _ => fresh(m, operation),
    }
}

fn int(m: &mut AllocatorSim, operation: &OperationIr, int: &IntOperationIr) {
    use IntOperationIr as I;
    match int {
        I::BitwiseAnd(op) | I::BitwiseOr(op) | I::BitwiseXor(op) => {
            elementwise::binary(m, &op.lhs, &op.rhs, &op.out);
        }
        I::BitwiseAndScalar(op) | I::BitwiseOrScalar(op) | I::BitwiseXorScalar(op) => {
            elementwise::unary(m, &op.lhs, &op.out);
        }
        I::BitwiseNot(op) => elementwise::unary(m, &op.input, &op.out),
        I::Matmul(op) => products::matmul(m, op),
        _ => fresh(m, operation),
    }
}

fn bool(m: &mut AllocatorSim, operation: &OperationIr, bool: &BoolOperationIr) {
    use BoolOperationIr as B;
    match bool {
        B::And(op) | B::Or(op) | B::Xor(op) => elementwise::binary(m, &op.lhs, &op.rhs, &op.out),
        B::Not(op) => elementwise::unary(m, &op.input, &op.out),
        B::IntoFloat(_) | B::IntoInt(_) => fresh(m, operation),
    }
}

fn module(m: &mut AllocatorSim, operation: &OperationIr, module: &ModuleOperationIr) {
    use ModuleOperationIr as M;
    match module {
        M::Linear(op) => products::linear(m, op),
        M::LinearXBackward(op) => products::linear_x_backward(m, op),
        M::LinearWeightBackward(op) => products::linear_weight_backward(m, op),
        M::LinearBiasBackward(op) => products::linear_bias_backward(m, op),
        M::Embedding(op) => products::embedding(m, op),
        M::EmbeddingBackward(op) => products::embedding_backward(m, op),
        M::Conv1d(op) => conv::forward(m, [&op.x, &op.weight], op.bias.as_ref(), &op.out),
        M::Conv2d(op) => conv::forward(m, [&op.x, &op.weight], op.bias.as_ref(), &op.out),
        M::Conv3d(op) => conv::forward(m, [&op.x, &op.weight], op.bias.as_ref(), &op.out),
        M::Conv1dWeightBackward(op) => {
            conv::weight_by_images(m, [&op.x, &op.weight, &op.output_grad], &op.out)
        }
        M::Conv2dWeightBackward(op) => {
            conv::weight_by_images(m, [&op.x, &op.weight, &op.output_grad], &op.out)
        }
        M::Conv3dWeightBackward(op) => {
            conv::weight_by_images(m, [&op.x, &op.weight, &op.output_grad], &op.out)
        }
        M::Conv1dBiasBackward(op) => conv::bias_backward(m, [&op.x, &op.bias, &op.output_grad], &op.out),
        M::Conv2dBiasBackward(op) => conv::bias_backward(m, [&op.x, &op.bias, &op.output_grad], &op.out),
        M::Conv3dBiasBackward(op) => conv::bias_backward(m, [&op.x, &op.bias, &op.output_grad], &op.out),
        M::AdaptiveAvgPool2d(op) if op.output_size == [1, 1] => images::mean(m, &op.x, &op.out),
        M::AvgPool2d(_)
        | M::AvgPool2dBackward(_)
        | M::AdaptiveAvgPool2d(_)
        | M::AdaptiveAvgPool2dBackward(_)
        | M::MaxPool2d(_)
        | M::MaxPool2dWithIndices(_)
        | M::MaxPool2dWithIndicesBackward(_) => images::pool(m, operation),
        _ => fresh(m, operation),
    }
}
