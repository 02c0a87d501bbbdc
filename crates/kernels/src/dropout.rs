use burn::tensor::{Tensor, TensorData};
use burn_backend::DType;
use oomph_core::Generator;

use crate::{
    blocks::change_rows,
    cast::cast,
    custom_op::CustomOp,
    gpu::{self, on_gpu},
    kernels::Kernels,
    stored_float::BLOCK,
};

/// The factors of a dropout. They are drawn again at each use, and never stored.
#[derive(Clone, Debug)]
pub struct DropoutMask {
    /// The generator, at the draw of the first element.
    pub generator: Generator,
    /// The probability that an element is dropped.
    pub probability: f32,
    /// The factor of the elements that are not dropped.
    pub scale: f32,
}

impl DropoutMask {
    /// The factors from element `at` on.
    pub(crate) fn factors(&self, at: usize) -> impl Iterator<Item = f32> {
        let mut generator = self.generator.clone();
        generator.skip_uniforms(at as u64);
        std::iter::repeat_with(move || if generator.chance(self.probability) { 0.0 } else { self.scale })
    }

    /// All factors, as a tensor of the shape and on the device of `like`.
    pub fn tensor<const D: usize>(&self, like: &Tensor<D>) -> Tensor<D> {
        let factors: Vec<f32> = self.factors(0).take(like.shape().num_elements()).collect();
        Tensor::from_data(TensorData::new(factors, like.dims()), &like.device())
    }
}

/// A plain tensor times the mask, in the tensor's format.
pub fn dropped<const D: usize>(input: Tensor<D>, mask: &DropoutMask, kernels: Kernels) -> Tensor<D> {
    let dtype = input.dtype();
    if kernels == Kernels::Gpu {
        let operation = CustomOp::changing("dropout", input, [], dtype);
        return gpu::one(on_gpu!(operation, [], |inputs| {
            let position = mask.generator.position();
            let mask = oomph_gpu_kernels::DropoutMask {
                key: position.key,
                word: position.word,
                probability: mask.probability,
                scale: mask.scale,
            };
            inputs.into_iter().map(|input| oomph_gpu_kernels::dropped(input, &mask)).collect()
        }));
    }
    if kernels == Kernels::Composed {
        let mask = mask.tensor(&input);
        return cast(cast(input, DType::F32, kernels) * mask, dtype, kernels);
    }
    CustomOp::change("dropout", input, [], dtype, |input, _| {
        change_rows(input, dtype, BLOCK, |at, values| {
            values.iter_mut().zip(mask.factors(at)).for_each(|(value, factor)| *value *= factor);
        })
    })
}
