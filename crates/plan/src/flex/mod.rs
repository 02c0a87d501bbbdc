//! The allocations of burn-flex 0.22.0-pre.3 for each operation, read from its sources and tested against the meter.
//!
//! - A tensor is a counted reference to storage with a layout. Reshaping, slicing, transposing and broadcasting copy
//!   nothing if the layout allows it ([`operands::view`]).
//! - An element-wise operation writes into an operand without other references ([`elementwise`]).
//! - Convolutions have workspaces: input and weights in another order, column tiles of each thread ([`conv`]).
//! - Matrix products pack their operands, and keep one buffer per thread forever ([`gemm`]).
//! - Operations with oomph's own kernels declare their allocations ([`custom`]).
//! - Everything else makes its operands contiguous, where they are not, and allocates its outputs ([`operands::fresh`]).

mod conv;
mod custom;
mod elementwise;
mod gemm;
mod half;
mod operands;
mod reduce;

use burn_ir::{BaseOperationIr, FloatOperationIr, ModuleOperationIr, NumericOperationIr, OperationIr};

use crate::allocator_sim::AllocatorSim;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flex {
    threads: usize,
}

impl Flex {
    /// The rules for `threads` compute threads. `beside` more threads compute matrix products.
    pub(crate) fn new(threads: usize, beside: usize, m: &mut AllocatorSim) -> Self {
        gemm::keep_buffers(m, threads + beside);
        Self { threads: threads.max(1) }
    }

    /// Plays one operation: takes its inputs, puts its outputs.
    pub(crate) fn run(&self, m: &mut AllocatorSim, operation: &OperationIr) {
        match operation {
            OperationIr::BaseFloat(base) | OperationIr::BaseInt(base) | OperationIr::BaseBool(base) => {
                self.base(m, operation, base);
            }
            OperationIr::NumericFloat(_, numeric) | OperationIr::NumericInt(_, numeric) => {
                self.numeric(m, operation, numeric);
            }
            OperationIr::Float(_, float) => self.float(m, operation, float),
            OperationIr::Activation(activation) => elementwise::activation(m, operation, activation),
            OperationIr::Module(module) => self.module(m, operation, module),
            OperationIr::Custom(custom) => custom::run(m, custom, self.threads),
            OperationIr::Bool(_)
            | OperationIr::Int(_)
            | OperationIr::Init(_)
            | OperationIr::Distributed(_)
            | OperationIr::Drop(_) => operands::fresh(m, operation),
        }
    }

    fn base(&self, m: &mut AllocatorSim, operation: &OperationIr, base: &BaseOperationIr) {
        use BaseOperationIr::{Cast, Cat, Empty, Expand, Flip, Permute, Reshape, Slice, SwapDims, Zeros};
        match base {
            Reshape(op) => operands::reshape(m, &op.input, &op.out),
            SwapDims(op) => {
                operands::view(m, &op.input, &op.out, |layout| layout.clone().swapped(op.dim1, op.dim2));
            }
            Permute(op) => operands::view(m, &op.input, &op.out, |layout| layout.permuted(&op.axes)),
            Flip(op) => operands::view(m, &op.input, &op.out, |layout| layout.clone().flipped(&op.axes)),
            Expand(op) => operands::view(m, &op.input, &op.out, |layout| layout.expanded(&op.out.shape[..])),
            Slice(op) => operands::slice(m, op),
            Cat(op) if op.tensors.len() == 1 => operands::view(m, &op.tensors[0], &op.out, Clone::clone),
            Cat(op) if op.dim == 0 => operands::strided(m, operation),
            Empty(op) | Zeros(op) => {
                let output = operands::empty(m, &op.out.shape[..], op.out.dtype);
                m.output(&op.out, output);
            }
            Cast(op) if op.input.dtype == op.out.dtype => operands::view(m, &op.input, &op.out, Clone::clone),
            Cast(op) if op.input.dtype.is_float() => half::cast(m, op),
            _ => operands::fresh(m, operation),
        }
    }

    fn numeric(&self, m: &mut AllocatorSim, operation: &OperationIr, numeric: &NumericOperationIr) {
        use NumericOperationIr as N;
        match numeric {
            N::Add(op) | N::Sub(op) | N::Mul(op) | N::Div(op) | N::Rem(op) => {
                elementwise::binary(m, &op.lhs, &op.rhs, &op.out);
            }
            N::MulScalar(op) if op.rhs.elem::<f64>() == 1.0 => elementwise::compact(m, &op.lhs, &op.out),
            N::AddScalar(op) | N::SubScalar(op) | N::MulScalar(op) | N::DivScalar(op) | N::RemScalar(op) => {
                elementwise::scalar(m, &op.lhs, &op.out)
            }
            N::ClampMin(op) | N::ClampMax(op) => elementwise::unary(m, &op.lhs, &op.out),
            N::Clamp(op) => elementwise::unary(m, &op.tensor, &op.out),
            N::Abs(op) | N::Neg(op) | N::Sign(op) => elementwise::unary(m, &op.input, &op.out),
            N::PowiScalar(op) => elementwise::power(m, op),
            N::Greater(_)
            | N::GreaterEqual(_)
            | N::Lower(_)
            | N::LowerEqual(_)
            | N::GreaterElem(_)
            | N::GreaterEqualElem(_)
            | N::LowerElem(_)
            | N::LowerEqualElem(_)
            | N::Sum(_)
            | N::Mean(_) => operands::strided(m, operation),
            N::SumDim(op) | N::MeanDim(op) | N::ProdDim(op) => reduce::along(m, op),
            N::ArgMax(op) | N::ArgMin(op) => reduce::index(m, op),
            _ => operands::fresh(m, operation),
        }
    }

    fn float(&self, m: &mut AllocatorSim, operation: &OperationIr, float: &FloatOperationIr) {
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
            | F::Round(op)
            | F::Floor(op)
            | F::Ceil(op)
            | F::Trunc(op)
            | F::Recip(op) => elementwise::unary(m, &op.input, &op.out),
            F::PowfScalar(op) => elementwise::power(m, op),
            F::Matmul(op) => self.matmul(m, &op.lhs, &op.rhs, &op.out),
            _ => operands::fresh(m, operation),
        }
    }

    fn module(&self, m: &mut AllocatorSim, operation: &OperationIr, module: &ModuleOperationIr) {
        use ModuleOperationIr as M;
        match module {
            M::Linear(op) => self.linear(m, op),
            M::LinearXBackward(op) => self.linear_x_backward(m, op),
            M::LinearWeightBackward(op) => self.linear_weight_backward(m, op),
            M::Conv2d(op) => self.conv2d(m, op),
            M::Conv2dXBackward(op) => self.conv2d_x_backward(m, op),
            M::Conv2dWeightBackward(op) => self.conv2d_weight_backward(m, op),
            M::EmbeddingBackward(op) => operands::added_into_zeros(m, operation, &op.out),
            M::MaxPool2d(op) => reduce::max_pool(m, op),
            M::MaxPool2dWithIndices(op) => reduce::max_pool_with_indices(m, op),
            _ => operands::fresh(m, operation),
        }
    }
}
