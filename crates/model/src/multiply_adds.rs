use burn_ir::{FloatOperationIr, ModuleOperationIr, OperationIr, TensorIr};

/// The multiply-adds of one recorded forward operation: those of convolutions, linear layers and matrix products.
/// Element-wise operations, normalisation and pooling count as none, as in the literature's figures.
/// The count saturates at 64 bits.
pub(crate) fn multiply_adds(operation: &OperationIr) -> u64 {
    match operation {
        OperationIr::Float(_, FloatOperationIr::Matmul(op)) => {
            elements(&op.out).saturating_mul(last(&op.lhs))
        }
        OperationIr::Module(ModuleOperationIr::Linear(op)) => elements(&op.out).saturating_mul(last(&op.x)),
        OperationIr::Module(ModuleOperationIr::Conv1d(op)) => convolution(&op.out, &op.weight),
        OperationIr::Module(ModuleOperationIr::Conv2d(op)) => convolution(&op.out, &op.weight),
        OperationIr::Module(ModuleOperationIr::Conv3d(op)) => convolution(&op.out, &op.weight),
        _ => 0,
    }
}

/// Each output element is a sum over the input channels of its group and the kernel's positions: all dimensions of the
/// weight but the first.
fn convolution(output: &TensorIr, weight: &TensorIr) -> u64 {
    let [_, taps @ ..] = weight.shape.as_slice() else { return 0 };
    elements(output).saturating_mul(taps.iter().product::<usize>() as u64)
}

fn elements(tensor: &TensorIr) -> u64 {
    tensor.shape.as_slice().iter().fold(1, |product: u64, size| product.saturating_mul(*size as u64))
}

fn last(tensor: &TensorIr) -> u64 {
    tensor.shape.as_slice().last().copied().unwrap_or(1) as u64
}
