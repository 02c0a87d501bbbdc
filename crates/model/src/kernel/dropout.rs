use burn::tensor::{Tensor, TensorData};
use burn_backend::DType;
use oomph_core::Generator;

use super::{
    Kernels, Own, cast,
    rows::{BLOCK, change_rows},
};

/// What a dropout multiplies by, drawn anew whenever it is asked for: nothing of it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Mask {
    /// At the first element's number.
    pub(crate) generator: Generator,
    /// Of an element to be dropped.
    pub(crate) probability: f32,
    /// What the others are multiplied by.
    pub(crate) scale: f32,
}

impl Mask {
    /// The factors from element `at` on.
    fn factors(&self, at: usize) -> impl Iterator<Item = f32> {
        let mut generator = self.generator.clone();
        generator.skip_uniforms(at as u64);
        std::iter::repeat_with(move || if generator.chance(self.probability) { 0.0 } else { self.scale })
    }

    /// All of them as a tensor.
    pub(crate) fn tensor<const D: usize>(&self, like: &Tensor<D>) -> Tensor<D> {
        let factors: Vec<f32> = self.factors(0).take(like.shape().num_elements()).collect();
        Tensor::from_data(TensorData::new(factors, like.dims()), &like.device())
    }
}

/// A plain tensor times the mask, in its own format.
pub(crate) fn dropped<const D: usize>(input: Tensor<D>, mask: &Mask, kernels: Kernels) -> Tensor<D> {
    let dtype = input.dtype();
    if kernels == Kernels::Composed {
        let mask = mask.tensor(&input);
        return cast(cast(input, DType::F32, kernels) * mask, dtype, kernels);
    }
    let operation = Own {
        name: "dropout",
        outputs: vec![(input.dims().to_vec(), dtype)],
        inputs: vec![input.into()],
        in_place: 1,
    };
    operation.run_one(|mut inputs| {
        change_rows(inputs.swap_remove(0), dtype, BLOCK, |at, values| {
            values.iter_mut().zip(mask.factors(at)).for_each(|(value, factor)| *value *= factor);
        })
    })
}
