//! Convolutions over images, and what goes back through them.
//!
//! On the CPU they are products of matrices of our own: [`gather`] forward and back to the input, or [`winograd`] where
//! fewer products do, and [`correlate`] back to the kernels. 16 bits are a format of storage there: they become 32 where
//! they are put together in a cache, and no tensor of 32 is made.

mod correlate;
mod gather;
mod own;
mod product;
mod way;
mod window;
mod winograd;

use burn::tensor::{Tensor, module, ops::ConvOptions};
use burn_backend::DType;

use super::{Kernels, cast};
use crate::{
    AnyTensor,
    backends::{Plain, first_backend},
};

/// How kernels go over an image: from one place to the next, from so far outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slide {
    pub(crate) stride: usize,
    pub(crate) padding: usize,
}

impl Slide {
    /// As Burn's operations want it.
    pub(crate) fn options(self) -> ConvOptions<2> {
        ConvOptions::new([self.stride; 2], [self.padding; 2], [1, 1], 1)
    }
}

/// A convolution of plain tensors, `[B, C_in, H, W]` with `[C_out, C_in, k, k]`; the result has the input's format.
pub(crate) fn conv2d(input: Tensor<4>, weight: Tensor<4>, slide: Slide, kernels: Kernels) -> Tensor<4> {
    let dtype = input.dtype();
    let weight = cast(weight, dtype, kernels);
    match kernels {
        Kernels::Own => own::forward(input, weight, slide),
        Kernels::Composed => module::conv2d(input, weight, None, slide.options()),
    }
}

/// What goes back through a convolution.
pub(crate) struct ConvGradients {
    /// Where the input wants it, in the format of the output's gradient.
    pub(crate) input: Option<Tensor<4>>,
    /// In 32 bits, where the weight wants it.
    pub(crate) weight: Option<Tensor<4>>,
}

/// The gradients of [`conv2d`] for what of input and weight wants one. `input` is made where the weight wants one, and
/// is gone before the input's gradient is there.
pub(crate) fn conv2d_backward(
    input: impl FnOnce() -> Tensor<4>,
    input_shape: [usize; 4],
    weight: Tensor<4>,
    gradient: Tensor<4>,
    slide: Slide,
    wanted: [bool; 2],
    kernels: Kernels,
) -> ConvGradients {
    let weight_gradient = wanted[1].then(|| match kernels {
        Kernels::Own => own::weight_backward(input(), weight.dims(), gradient.clone(), slide),
        Kernels::Composed => weight_backward_composed(input(), weight.clone(), gradient.clone(), slide),
    });
    let input_gradient = wanted[0].then(|| {
        let weight = cast(weight, gradient.dtype(), kernels);
        match kernels {
            Kernels::Own => own::input_backward(input_shape, weight, gradient, slide),
            Kernels::Composed => input_backward_composed(input_shape, weight, gradient, slide),
        }
    });
    ConvGradients { input: input_gradient, weight: weight_gradient }
}

fn weight_backward_composed(
    input: Tensor<4>,
    weight: Tensor<4>,
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    let weight = cast(weight, gradient.dtype(), Kernels::Composed);
    let operands = [input, weight, gradient].map(AnyTensor::from);
    cast(of_backend(first_backend!(weight_backward(&operands, slide))), DType::F32, Kernels::Composed)
}

fn input_backward_composed(
    input_shape: [usize; 4],
    weight: Tensor<4>,
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    // Of the input its shape is read alone: a view of one element has it.
    let one = Tensor::<4>::zeros([1; 4], (&gradient.device(), gradient.dtype())).expand(input_shape);
    let operands = [one, weight, gradient].map(AnyTensor::from);
    of_backend(first_backend!(input_backward(&operands, slide)))
}

fn weight_backward<B: Plain>(operands: &[AnyTensor; 3], slide: Slide) -> Option<AnyTensor> {
    let [input, weight, gradient] = operands.each_ref().map(B::primitive);
    Some(B::tensor(B::conv2d_weight_backward(input?, weight?, gradient?, slide.options())))
}

fn input_backward<B: Plain>(operands: &[AnyTensor; 3], slide: Slide) -> Option<AnyTensor> {
    let [input, weight, gradient] = operands.each_ref().map(B::primitive);
    Some(B::tensor(B::conv2d_x_backward(input?, weight?, gradient?, slide.options())))
}

fn of_backend(gradient: Option<AnyTensor>) -> Tensor<4> {
    // Whatever backend computed forward computes backward, and a convolution over images has rank 4.
    gradient.and_then(AnyTensor::float).expect("a convolution's gradient is an image or a kernel")
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;

    /// A convolution to check: batch, channels, height and width, kernel, stride and padding.
    #[derive(Clone, Copy, Debug)]
    struct Case {
        batch: usize,
        channels: [usize; 2],
        size: [usize; 2],
        kernel: usize,
        slide: Slide,
    }

    fn case(
        batch: usize,
        channels: [usize; 2],
        size: [usize; 2],
        [kernel, stride, padding]: [usize; 3],
    ) -> Case {
        Case { batch, channels, size, kernel, slide: Slide { stride, padding } }
    }

    /// Channels that fill tiles and that do not, images that fill blocks and that do not, few and many of each.
    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for (kernel, padding) in [(1, 0), (3, 1), (3, 0), (7, 3), (2, 1)] {
            for stride in [1, 2, 3] {
                for (batch, channels, size) in
                    [(1, [1, 1], [7, 7]), (2, [3, 5], [9, 8]), (5, [20, 9], [7, 10]), (3, [37, 18], [12, 11])]
                {
                    cases.push(case(batch, channels, size, [kernel, stride, padding]));
                }
            }
        }
        // More channels than are multiplied at once, rows than a task has, pixels than a block has.
        cases.push(case(2, [300, 12], [4, 4], [1, 1, 0]));
        cases.push(case(9, [70, 40], [4, 4], [3, 1, 1]));
        cases.push(case(2, [4, 270], [5, 5], [3, 2, 1]));
        cases.push(case(1, [2, 3], [40, 41], [3, 1, 1]));
        cases.push(case(2, [3, 2], [36, 36], [1, 1, 0]));
        // As many of both as fewer products pay for.
        cases.push(case(4, [70, 60], [16, 15], [3, 1, 1]));
        cases
    }

    impl Case {
        fn outputs(self) -> [usize; 2] {
            self.size.map(|size| (size + 2 * self.slide.padding - self.kernel) / self.slide.stride + 1)
        }

        fn dims(self) -> [[usize; 4]; 3] {
            let [input, output] = self.channels;
            let [[height, width], [down, across]] = [self.size, self.outputs()];
            let kernel = [output, input, self.kernel, self.kernel];
            [[self.batch, input, height, width], kernel, [self.batch, output, down, across]]
        }

        /// Input, weight and gradient of the output: small whole numbers, of which sums of products are exact.
        fn values(self) -> [Vec<f32>; 3] {
            let value = |at: usize, salt: usize| ((at * 37 + at / 7 * salt) % 11) as f32 - 5.0;
            let [input, weight, gradient] = self.dims().map(|dims| dims.iter().product::<usize>());
            [(input, 1), (weight, 3), (gradient, 5)]
                .map(|(count, salt)| (0..count).map(|at| value(at, salt)).collect())
        }

        /// Output, input's gradient and weight's gradient by loops.
        fn expected(self) -> [Vec<f32>; 3] {
            let [x, w, g] = self.values();
            let [input @ [_, channels, height, width], weight, output @ [batch, outputs, down, across]] =
                self.dims();
            let mut made = [output, input, weight].map(|dims| vec![0.0; dims.iter().product()]);
            let k = self.kernel;
            let read = |at: usize, tap: usize, size: usize| {
                (at * self.slide.stride + tap).checked_sub(self.slide.padding).filter(|read| *read < size)
            };
            for b in 0..batch {
                for o in 0..outputs {
                    for (y, x_at) in (0..down).flat_map(|y| (0..across).map(move |x| (y, x))) {
                        let to = ((b * outputs + o) * down + y) * across + x_at;
                        for (c, tap) in (0..channels).flat_map(|c| (0..k * k).map(move |tap| (c, tap))) {
                            let (row, column) = (read(y, tap / k, height), read(x_at, tap % k, width));
                            let (Some(row), Some(column)) = (row, column) else { continue };
                            let from = ((b * channels + c) * height + row) * width + column;
                            let with = (o * channels + c) * k * k + tap;
                            made[0][to] += x[from] * w[with];
                            made[1][from] += g[to] * w[with];
                            made[2][with] += g[to] * x[from];
                        }
                    }
                }
            }
            made
        }

        /// The same by `kernels`, in a format.
        fn made(self, kernels: Kernels, dtype: DType) -> [Vec<f32>; 3] {
            let [x, w, g] = self.values();
            let [input, weight, output] = self.dims();
            let tensor = |values: Vec<f32>, dims: [usize; 4]| {
                let tensor = Tensor::<4>::from_data(TensorData::new(values, dims), &Device::flex());
                cast(tensor, dtype, Kernels::Own)
            };
            let (x, w, g) = (tensor(x, input), tensor(w, weight), tensor(g, output));
            let made = conv2d(x.clone(), w.clone(), self.slide, kernels);
            let gradients = conv2d_backward(|| x, input, w, g, self.slide, [true; 2], kernels);
            [Some(made), gradients.input, gradients.weight].map(|tensor| {
                let tensor = cast(tensor.expect("it is wanted"), DType::F32, Kernels::Own);
                AnyTensor::from(tensor).to_host().expect("the CPU does not fail")
            })
        }
    }

    #[test]
    fn every_result_is_the_sum_of_its_products() {
        for case in cases() {
            let (made, expected) = (case.made(Kernels::Own, DType::F32), case.expected());
            assert_eq!(made, expected, "{case:?}");
        }
    }

    #[test]
    fn the_twin_of_burns_operations_gives_the_same() {
        for case in cases() {
            assert_eq!(case.made(Kernels::Composed, DType::F32), case.expected(), "{case:?}");
        }
    }

    #[test]
    fn in_16_bits_only_what_is_stored_is_rounded() {
        for case in cases() {
            for dtype in [DType::BF16, DType::F16] {
                let [output, input, weight] = case.expected();
                let rounded = |values: Vec<f32>| {
                    let count = values.len();
                    let wide = Tensor::<1>::from_data(TensorData::new(values, [count]), &Device::flex());
                    let narrow = cast(cast(wide, dtype, Kernels::Own), DType::F32, Kernels::Own);
                    AnyTensor::from(narrow).to_host().expect("the CPU does not fail")
                };
                let expected = [rounded(output), rounded(input), weight];
                assert_eq!(case.made(Kernels::Own, dtype), expected, "{case:?} {dtype:?}");
            }
        }
    }

    #[test]
    fn the_bits_do_not_depend_on_the_number_of_threads() {
        // Numbers whose sums depend on their order.
        let value = |at: usize| ((at * 7919 % 1013) as f32 / 1013.0 - 0.5).exp();
        let tensor = |dims: [usize; 4]| {
            let values: Vec<f32> = (0..dims.iter().product()).map(value).collect();
            Tensor::<4>::from_data(TensorData::new(values, dims), &Device::flex())
        };
        for case in [
            case(6, [70, 90], [4, 4], [3, 1, 1]),
            case(3, [33, 65], [20, 20], [3, 2, 1]),
            case(1, [600, 40], [7, 7], [1, 1, 0]),
            case(9, [150, 90], [9, 8], [3, 1, 1]),
        ] {
            let [input, weight, output] = case.dims();
            let all = |threads: usize| {
                let pool =
                    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
                pool.install(|| {
                    let (x, w, g) = (tensor(input), tensor(weight), tensor(output));
                    let made = conv2d(x.clone(), w.clone(), case.slide, Kernels::Own);
                    let back = conv2d_backward(|| x, input, w, g, case.slide, [true; 2], Kernels::Own);
                    [Some(made), back.input, back.weight].map(|tensor| {
                        let values = AnyTensor::from(tensor.expect("it is wanted")).to_host();
                        values
                            .expect("the CPU does not fail")
                            .into_iter()
                            .map(f32::to_bits)
                            .collect::<Vec<_>>()
                    })
                })
            };
            let alone = all(1);
            for threads in [2, 3, 16] {
                assert!(all(threads) == alone, "{case:?} with {threads} threads");
            }
        }
    }
}
