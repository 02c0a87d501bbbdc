//! Sequences that are written part by part.

use burn::tensor::Tensor;
use burn_backend::DType;
use burn_flex::FlexTensor;

use crate::{
    any_tensor::{AnyTensor, ranked},
    blocks::change_part,
    cast::cast,
    custom_op::CustomOp,
    flex_tensor::blank,
    gpu::{self, on_gpu},
    kernels::Kernels,
    stored_float::{BLOCK, StoredFloats},
};

/// A run of steps of a sequence `[B, T, F]`, whose rows are counted sample by sample, step by step.
#[derive(Clone, Copy)]
pub(crate) struct RunRows {
    /// T.
    pub(crate) all_steps: usize,
    pub(crate) first_step: usize,
    /// Steps of the run.
    pub(crate) steps: usize,
    /// F.
    pub(crate) features: usize,
}

impl RunRows {
    /// The index of the first element of a row.
    #[inline(always)]
    pub(crate) fn begin(self, row: usize) -> usize {
        (row / self.steps * self.all_steps + self.first_step + row % self.steps) * self.features
    }
}

/// A tensor of zeros on the device of `like`, to be overwritten part by part.
pub fn zeros<const D: usize>(
    shape: [usize; D],
    dtype: DType,
    like: impl Into<AnyTensor>,
    kernels: Kernels,
) -> Tensor<D> {
    let like = like.into();
    if kernels == Kernels::Composed {
        return Tensor::zeros(shape, (&like.device(), dtype));
    }
    ranked(zeros_by_kernel(&shape, dtype, like, kernels))
}

/// As [`zeros`], of any rank and by our own `kernels`.
pub(crate) fn zeros_by_kernel(shape: &[usize], dtype: DType, like: AnyTensor, kernels: Kernels) -> AnyTensor {
    // Burn allocates its zeros on the CPU twice for a moment.
    let outputs = vec![(shape.to_vec(), dtype)];
    let operation = CustomOp { name: "zeros", inputs: vec![like], outputs, in_place: 0 };
    if kernels == Kernels::Gpu {
        let [zeros] = gpu::outputs(on_gpu!(operation, [], |inputs| {
            vec![oomph_gpu_kernels::zeros(shape, dtype, &inputs[0])]
        }));
        return zeros;
    }
    let [zeros] = operation.run(|_| vec![blank(shape, dtype)]);
    zeros
}

/// Writes the time steps `part`, `[B, k, F]`, into `whole`, `[B, T, F]`, from step `at` on, in the format of `whole`: in
/// place, if nobody else holds `whole`.
pub fn place_steps(whole: &mut Tensor<3>, part: Tensor<3>, at: usize, kernels: Kernels) {
    let [batch, steps, features] = whole.dims();
    let [_, count, _] = part.dims();
    let dtype = whole.dtype();
    // A placeholder until the result exists.
    let before = std::mem::replace(whole, part.clone());
    *whole = match kernels {
        Kernels::Gpu => {
            let operation = CustomOp::changing("place_steps", before, [part.into()], dtype);
            gpu::one(on_gpu!(operation, [], |inputs| {
                let [whole, part] = gpu::listed(inputs);
                vec![oomph_gpu_kernels::place_steps(whole, part, at)]
            }))
        }
        Kernels::Composed => {
            before.slice_assign([0..batch, at..at + count, 0..features], cast(part, dtype, kernels))
        }
        Kernels::Cpu => CustomOp::change("place_steps", before, [part.into()], dtype, |whole, part| {
            let (row, part) = (steps * features, StoredFloats::of(&part[0]));
            placed(whole, part, [batch, row], [at * features, count * features])
        }),
    };
}

/// `whole` and `part` have `batch` rows each. The part begins at element `start` of a row and has `width` elements.
fn placed(
    mut whole: FlexTensor,
    part: StoredFloats<'_>,
    [batch, row]: [usize; 2],
    [start, width]: [usize; 2],
) -> FlexTensor {
    for sample in 0..batch {
        let from = sample * row + start;
        change_part(&mut whole, from..from + width, |at, values| {
            let mut buffer = [0.0; BLOCK];
            let at = sample * width + at;
            values.copy_from_slice(part.read(at..at + values.len(), &mut buffer));
        });
    }
    whole
}
