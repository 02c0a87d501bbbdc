//! What burn-flex 0.22.0-pre.3 allocates for each operation, read from its sources and measured against the meter.
//!
//! - A tensor is a counted reference to storage with a layout. Reshaping, slicing, transposing and broadcasting make no
//!   copy, where the layout allows ([`views`]).
//! - An element-wise operation is written into an operand that nobody else refers to ([`elementwise`]).
//! - Convolutions have workspaces: input and weights in another order, column tiles of each thread ([`conv`]).
//! - Matrix products pack their operands, and keep a buffer a thread for ever ([`gemm`]).
//! - Operations with kernels of our own declare what they allocate ([`custom`]).
//! - Everything else makes its operands contiguous, where they are not, and allocates its outputs ([`Flex::fresh`]).

mod conv;
mod custom;
mod elementwise;
mod gemm;
mod half;
mod reduce;
mod views;

use burn_backend::DType;
use burn_ir::{
    BaseOperationIr, FloatOperationIr, ModuleOperationIr, NumericOperationIr, OperationIr, TensorIr,
};

use crate::machine::{Handle, Machine};

/// The rules, with what they keep between operations.
#[derive(Debug)]
pub(crate) struct Flex {
    threads: usize,
    gemm: gemm::Gemm,
}

impl Flex {
    /// For so many compute threads, and so many beside them that ask for products.
    pub(crate) fn new(threads: usize, beside: usize, m: &mut Machine) -> Self {
        let mut gemm = gemm::Gemm::default();
        gemm.prepare(m, threads + beside);
        Self { threads: threads.max(1), gemm }
    }

    /// The rules of views and element-wise operations for another backend: no buffers that stay.
    pub(crate) fn without_buffers() -> Self {
        Self { threads: 1, gemm: gemm::Gemm::default() }
    }

    /// Plays one operation: takes its inputs, puts its outputs.
    pub(crate) fn run(&mut self, m: &mut Machine, operation: &OperationIr) {
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
            | OperationIr::Drop(_) => Self::fresh(m, operation),
        }
    }

    fn base(&mut self, m: &mut Machine, operation: &OperationIr, base: &BaseOperationIr) {
        use BaseOperationIr::{Cast, Cat, Empty, Expand, Flip, Permute, Reshape, Slice, SwapDims, Zeros};
        match base {
            Reshape(op) => views::reshape(m, &op.input, &op.out),
            SwapDims(op) => {
                views::view(m, &op.input, &op.out, |layout| layout.clone().swapped(op.dim1, op.dim2));
            }
            Permute(op) => views::view(m, &op.input, &op.out, |layout| layout.permuted(&op.axes)),
            Flip(op) => views::view(m, &op.input, &op.out, |layout| layout.clone().flipped(&op.axes)),
            Expand(op) => views::view(m, &op.input, &op.out, |layout| layout.expanded(&op.out.shape[..])),
            Slice(op) => views::slice(m, op),
            Cat(op) if op.tensors.len() == 1 => views::view(m, &op.tensors[0], &op.out, Clone::clone),
            Cat(op) if op.dim == 0 => Self::strided(m, operation),
            Empty(op) | Zeros(op) => {
                let output = empty(m, &op.out.shape[..], op.out.dtype);
                m.output(&op.out, output);
            }
            Cast(op) if op.input.dtype == op.out.dtype => views::view(m, &op.input, &op.out, Clone::clone),
            Cast(op) if op.input.dtype.is_float() => half::cast(m, op),
            _ => Self::fresh(m, operation),
        }
    }

    fn numeric(&mut self, m: &mut Machine, operation: &OperationIr, numeric: &NumericOperationIr) {
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
            | N::Mean(_) => Self::strided(m, operation),
            N::SumDim(op) | N::MeanDim(op) | N::ProdDim(op) => reduce::along(m, op),
            N::ArgMax(op) | N::ArgMin(op) => reduce::index(m, op),
            _ => Self::fresh(m, operation),
        }
    }

    fn float(&mut self, m: &mut Machine, operation: &OperationIr, float: &FloatOperationIr) {
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
            _ => Self::fresh(m, operation),
        }
    }

    fn module(&mut self, m: &mut Machine, operation: &OperationIr, module: &ModuleOperationIr) {
        use ModuleOperationIr as M;
        match module {
            M::Linear(op) => self.linear(m, op),
            M::LinearXBackward(op) => self.linear_x_backward(m, op),
            M::LinearWeightBackward(op) => self.linear_weight_backward(m, op),
            M::Conv2d(op) => self.conv2d(m, op),
            M::Conv2dXBackward(op) => self.conv2d_x_backward(m, op),
            M::Conv2dWeightBackward(op) => self.conv2d_weight_backward(m, op),
            M::MaxPool2d(op) => reduce::max_pool(m, op),
            M::MaxPool2dWithIndices(op) => reduce::max_pool_with_indices(m, op),
            _ => Self::fresh(m, operation),
        }
    }

    /// Operands made contiguous, outputs allocated.
    fn fresh(m: &mut Machine, operation: &OperationIr) {
        let inputs: Vec<Handle> = operation.inputs().map(|ir| m.input(ir)).collect();
        let copies: Vec<Handle> = inputs.iter().map(|input| contiguous(m, input)).collect();
        allocate(m, operation.outputs());
        for handle in copies.into_iter().chain(inputs) {
            m.release(handle);
        }
    }

    /// Operands read as they lie, outputs allocated.
    fn strided(m: &mut Machine, operation: &OperationIr) {
        let inputs: Vec<Handle> = operation.inputs().map(|ir| m.input(ir)).collect();
        allocate(m, operation.outputs());
        for handle in inputs {
            m.release(handle);
        }
    }
}

fn allocate<'a>(m: &mut Machine, outputs: impl Iterator<Item = &'a TensorIr>) {
    for ir in outputs {
        let output = m.allocate(&ir.shape[..], ir.dtype);
        m.output(ir, output);
    }
}

/// `FlexTensor::empty`: zeros are made as bytes and copied to where they are aligned, so there are two for a moment.
///
/// Before training and where batches are uploaded, zeros stand for data that comes from the host, whose storage is
/// taken over as it is.
fn empty(m: &mut Machine, shape: &[usize], dtype: DType) -> Handle {
    if m.is_uploading() {
        return m.allocate(shape, dtype);
    }
    let unaligned = m.allocate(shape, dtype);
    let output = m.allocate(shape, dtype);
    m.release(unaligned);
    output
}

/// `FlexTensor::to_contiguous`: one more reference, or a copy.
fn contiguous(m: &mut Machine, handle: &Handle) -> Handle {
    if handle.layout.starts_contiguous() && m.is_whole(handle) {
        m.share(handle)
    } else {
        m.allocate(&handle.layout.shape.clone(), handle.dtype)
    }
}
