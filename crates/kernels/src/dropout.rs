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
    /// Writes the factors from element `at` on.
    pub(crate) fn write_factors(&self, at: usize, factors: &mut [f32]) {
        let mut generator = self.generator.clone();
        generator.skip_uniforms(at as u64);
        generator.fill_uniforms(factors);
        let Self { probability, scale, .. } = *self;
        factors.iter_mut().for_each(|factor| *factor = if *factor < probability { 0.0 } else { scale });
    }

    /// All factors, as a tensor of the shape and on the device of `like`.
    pub fn tensor<const D: usize>(&self, like: &Tensor<D>) -> Tensor<D> {
        let mut factors = vec![0.0; like.shape().num_elements()];
        self.write_factors(0, &mut factors);
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
            let mut factors = [0.0; BLOCK];
            let factors = &mut factors[..values.len()];
            mask.write_factors(at, factors);
            values.iter_mut().zip(factors).for_each(|(value, factor)| *value *= *factor);
        })
    })
}
