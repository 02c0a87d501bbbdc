//! What becomes of the output of a convolution before it is written: batch normalisation, a residual addition, a ReLU.
//!
//! Without it each of them is a pass over memory. The bits are the same as by such passes, in 32 bits; in 16 bits the output
//! is rounded once, at the end.

use std::mem::MaybeUninit;

use burn::tensor::Tensor;
use burn_backend::DType;
use burn_flex::FlexTensor;

use super::pieces::{Pieces, lanes, lanes_mut, pieces};
use crate::{
    any_tensor::AnyTensor,
    kernels::Kernels,
    norm::{Addend, Affine, Norm},
    stored_float::StoredFloat,
};

/// A normalisation of a convolution's output, with what follows it.
#[derive(Debug)]
pub struct Finish {
    /// The normalisation.
    pub norm: Norm,
    /// A tensor of the output's shape and format that is added to the normalised output.
    pub addend: Option<Tensor<4>>,
    /// Whether a ReLU ends it.
    pub rectify: bool,
}

impl Finish {
    /// The output of a convolution finished by a pass over it, in the format `dtype`.
    pub(super) fn apply(self, output: Tensor<4>, dtype: DType, kernels: Kernels) -> Tensor<4> {
        let addend = self.addend.map_or(Addend::Nothing, |addend| Addend::Plain(Box::new(addend)));
        self.norm.apply(output, addend, self.rectify, dtype, kernels)
    }

    /// The inputs of the operation behind input and weight.
    pub(super) fn into_inputs(self) -> Vec<AnyTensor> {
        let vectors = self.norm.vectors().into_iter();
        vectors.chain(self.addend.map(AnyTensor::from)).collect()
    }
}

/// The same on the CPU, for outputs of a format.
pub(super) struct Finishing<'a, E> {
    affine: Affine<'a>,
    addend: Option<&'a [E]>,
    rectify: bool,
}

impl<'a, E: StoredFloat> Finishing<'a, E> {
    /// By the inputs that [`Finish::into_inputs`] gave; `None` if there are none.
    pub(super) fn of(inputs: &'a [FlexTensor], rectify: bool) -> Option<Self> {
        let (vectors, addend) = inputs.split_at_checked(3)?;
        Some(Self { affine: Affine::of(vectors), addend: addend.first().map(E::values), rectify })
    }

    /// Writes contiguous pixels of a channel, whose first one has the index `at` in the output.
    #[inline(always)]
    pub(super) fn write(&self, channel: usize, at: usize, products: &[f32], to: &mut [MaybeUninit<E>]) {
        let normed = self.affine.of_channel(channel);
        let rectified = |value: f32| value.max(0.0);
        match (self.addend.map(|addend| &addend[at..]), self.rectify) {
            (Some(addend), true) => {
                write_sums(products, addend, to, |it, addend| rectified(normed(it) + addend))
            }
            (Some(addend), false) => write_sums(products, addend, to, |it, addend| normed(it) + addend),
            (None, true) => write(products, to, |it| rectified(normed(it))),
            (None, false) => write(products, to, normed),
        }
    }
}

/// Writes products, changed by `change`.
#[inline(always)]
pub(super) fn write<E: StoredFloat>(
    products: &[f32],
    to: &mut [MaybeUninit<E>],
    change: impl Fn(f32) -> f32,
) {
    pieces(to.len(), Changed { products, to, change });
}

struct Changed<'a, E, F> {
    products: &'a [f32],
    to: &'a mut [MaybeUninit<E>],
    change: F,
}

impl<E: StoredFloat, F: Fn(f32) -> f32> Pieces for Changed<'_, E, F> {
    #[inline(always)]
    fn piece<const COUNT: usize>(&mut self, at: usize) {
        // Written as a whole, as `widened` says.
        let mut made = [MaybeUninit::uninit(); COUNT];
        for (made, product) in made.iter_mut().zip(lanes::<_, COUNT>(self.products, at)) {
            made.write(E::rounded((self.change)(*product)));
        }
        *lanes_mut(self.to, at) = made;
    }
}

/// Writes what `sum` makes of products and addends.
#[inline(always)]
fn write_sums<E: StoredFloat>(
    products: &[f32],
    addends: &[E],
    to: &mut [MaybeUninit<E>],
    sum: impl Fn(f32, f32) -> f32,
) {
    pieces(to.len(), Sums { products, addends, to, sum });
}

struct Sums<'a, E, F> {
    products: &'a [f32],
    addends: &'a [E],
    to: &'a mut [MaybeUninit<E>],
    sum: F,
}

impl<E: StoredFloat, F: Fn(f32, f32) -> f32> Pieces for Sums<'_, E, F> {
    #[inline(always)]
    fn piece<const COUNT: usize>(&mut self, at: usize) {
        let (products, addends) = (lanes::<_, COUNT>(self.products, at), lanes::<_, COUNT>(self.addends, at));
        let mut made = [MaybeUninit::uninit(); COUNT];
        for ((made, product), addend) in made.iter_mut().zip(products).zip(addends) {
            made.write(E::rounded((self.sum)(*product, addend.widened())));
        }
        *lanes_mut(self.to, at) = made;
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::{
        cast::cast,
        conv::{Slide, conv2d, conv2d_finished},
    };

    fn values<const D: usize>(dims: [usize; D], salt: usize) -> Tensor<D> {
        let value = |at: usize| ((at * 7919 + salt) % 1013) as f32 / 506.0 - 1.0;
        let values: Vec<f32> = (0..dims.iter().product()).map(value).collect();
        Tensor::from_data(TensorData::new(values, dims), &Device::flex())
    }

    fn norm(channels: usize) -> Norm {
        let vector = |salt| values([channels], salt);
        Norm { mean: vector(1), inverse: vector(2), weight: vector(3), shift: vector(4), shared: None }
    }

    fn numbers(tensor: Tensor<4>) -> Vec<f32> {
        let wide = AnyTensor::from(cast(tensor, DType::F32, Kernels::Cpu));
        wide.to_host().expect("the CPU does not fail")
    }

    /// Batch, channels, outputs, height, width, kernel and stride: those of blocks, of Winograd's algorithm, of the matrix unit.
    const CASES: [[usize; 7]; 6] = [
        [2, 5, 7, 9, 8, 3, 1],
        [3, 3, 20, 13, 11, 7, 2],
        [4, 70, 60, 16, 15, 3, 1],
        [2, 210, 210, 23, 24, 1, 1],
        [3, 290, 210, 7, 5, 3, 2],
        [0, 5, 7, 9, 8, 3, 1],
    ];

    #[test]
    fn a_finished_output_is_what_passes_over_it_make() {
        for [batch, channels, outputs, height, width, kernel, stride] in CASES {
            let slide = Slide { stride, padding: kernel / 2 };
            let (input, weight) = ([batch, channels, height, width], [outputs, channels, kernel, kernel]);
            let shape = slide.output(input, weight);
            for (rectify, adds) in [(false, false), (true, false), (false, true), (true, true)] {
                for dtype in [DType::F32, DType::BF16] {
                    let narrow = |tensor| cast(tensor, dtype, Kernels::Cpu);
                    let (x, w) = (narrow(values(input, 5)), narrow(values(weight, 6)));
                    let addend = adds.then(|| narrow(values(shape, 7)));
                    let norm = norm(outputs);
                    let finish = Finish { norm: norm.clone(), addend: addend.clone(), rectify };
                    let finished = conv2d_finished(x.clone(), w.clone(), slide, finish, Kernels::Cpu);
                    assert_eq!((finished.dims(), finished.dtype()), (shape, dtype));
                    let plain = conv2d(x, w, slide, Kernels::Cpu);
                    let scale =
                        numbers(plain.clone()).iter().fold(1.0f32, |most, value| most.max(value.abs()));
                    let addend = addend.map_or(Addend::Nothing, |addend| Addend::Plain(Box::new(addend)));
                    let expected = numbers(norm.apply(plain, addend, rectify, dtype, Kernels::Cpu));
                    let made = numbers(finished);
                    // In 16 bits the output of the convolution is rounded too, where it is a tensor.
                    let tolerance = if dtype == DType::F32 { 0.0 } else { scale / 32.0 };
                    let is_near = |(made, expected): (&f32, &f32)| (made - expected).abs() <= tolerance;
                    assert!(
                        made.iter().zip(&expected).all(is_near),
                        "{input:?} {weight:?} {rectify} {dtype:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn not_a_number_stays_so_without_a_relu() {
        let slide = Slide { stride: 1, padding: 0 };
        let (input, weight) = (values([1, 1, 1, 1], 1) * f32::NAN, values([2, 1, 1, 1], 1));
        let finish = Finish { norm: norm(2), addend: None, rectify: false };
        let made = numbers(conv2d_finished(input, weight, slide, finish, Kernels::Cpu));
        assert!(made.iter().all(|value| value.is_nan()), "{made:?}");
    }
}
