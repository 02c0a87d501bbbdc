use burn::tensor::Tensor;

use super::channel_rows::ChannelRows;
use crate::{
    blocks::change_rows,
    custom_op::CustomOp,
    kernels::Kernels,
    stored_float::{BLOCK, StoredFloats},
};

/// The gradient before a ReLU: `gradient` where the ReLU's `output` is above 0, and else 0.
pub fn rectified_gradient(gradient: Tensor<4>, output: &Tensor<4>, kernels: Kernels) -> Tensor<4> {
    if kernels == Kernels::Composed {
        return gradient * output.clone().sign();
    }
    let row = ChannelRows::of(output).row;
    let dtype = gradient.dtype();
    let operation = CustomOp {
        name: "rectify_backward",
        outputs: vec![(gradient.dims().to_vec(), dtype)],
        inputs: vec![gradient.into(), output.clone().into()],
        in_place: 1,
    };
    operation.run_one(|mut inputs| {
        let rest = inputs.split_off(1);
        let output = StoredFloats::of(&rest[0]);
        // The gradient is the only input left.
        let gradient = inputs.swap_remove(0);
        change_rows(gradient, dtype, row, |at, gradient| {
            let mut buffer = [0.0; BLOCK];
            let output = output.read(at..at + gradient.len(), &mut buffer);
            for (gradient, output) in gradient.iter_mut().zip(output) {
                *gradient = if *output > 0.0 { *gradient } else { 0.0 };
            }
        })
    })
}
