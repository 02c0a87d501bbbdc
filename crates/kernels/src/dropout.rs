use burn::tensor::{Tensor, TensorData};
use burn_backend::DType;
use oomph_core::Generator;

use crate::{
    blocks::{ByClosure, change_rows},
    cast::cast,
    custom_op::CustomOp,
    gpu::{self, on_gpu},
    kernels::Kernels,
    stored_float::{BLOCK, StoredFloats},
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

    /// Multiplies at most [`BLOCK`] values by the factors from element `at` on.
    #[inline(always)]
    fn apply(&self, at: usize, values: &mut [f32]) {
        let mut factors = [0.0; BLOCK];
        let factors = &mut factors[..values.len()];
        self.write_factors(at, factors);
        values.iter_mut().zip(factors).for_each(|(value, factor)| *value *= *factor);
    }

    /// All factors, as a tensor of the shape and on the device of `like`.
    pub fn tensor<const D: usize>(&self, like: &Tensor<D>) -> Tensor<D> {
        let mut factors = vec![0.0; like.shape().num_elements()];
        self.write_factors(0, &mut factors);
        Tensor::from_data(TensorData::new(factors, like.dims()), &like.device())
    }
}

/// `onto` plus a plain tensor times the mask, both of one shape and format.
pub fn dropped_onto<const D: usize>(
    onto: Tensor<D>,
    input: Tensor<D>,
    mask: &DropoutMask,
    kernels: Kernels,
) -> Tensor<D> {
    if kernels != Kernels::Cpu {
        return onto + dropped(input, mask, kernels);
    }
    let dtype = input.dtype();
    CustomOp::change("dropout_onto", input, [onto.into()], dtype, |input, rest| {
        let onto = StoredFloats::of(&rest[0]);
        let change = ByClosure(|at, values| {
            let mut buffer = [0.0; BLOCK];
            mask.apply(at, values);
            let onto = onto.read(at..at + values.len(), &mut buffer);
            values.iter_mut().zip(onto).for_each(|(value, onto)| *value += onto);
        });
        change_rows(input, dtype, BLOCK, change)
    })
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
        change_rows(input, dtype, BLOCK, ByClosure(|at, values| mask.apply(at, values)))
    })
}

#[cfg(test)]
mod tests {
    use oomph_core::Key;

    use super::*;
    use crate::truth::{distance, stored, values};

    #[test]
    fn a_sum_with_dropped_elements_is_that_of_both() {
        let generator = Generator::at(Key::new(5));
        let mask = DropoutMask { generator, probability: 0.3, scale: 1.0 / 0.7 };
        for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::BF16, 4e-3), (DType::F16, 5e-4)] {
            let [input, onto] = ["input", "onto"].map(|name| stored(name, [70, 333], dtype));
            let factors = values(mask.tensor(&input));
            assert!(factors.contains(&0.0) && factors.iter().any(|factor| *factor > 1.0));
            let terms = values(onto.clone()).into_iter().zip(values(input.clone())).zip(factors);
            let expected: Vec<f64> = terms.map(|((onto, value), factor)| onto + value * factor).collect();
            for kernels in [Kernels::Cpu, Kernels::Composed] {
                let found = values(dropped_onto(onto.clone(), input.clone(), &mask, kernels));
                let error = distance(&found, &expected);
                assert!(error < tolerance, "{dtype:?} {kernels:?}: {error}");
            }
        }
    }
}
