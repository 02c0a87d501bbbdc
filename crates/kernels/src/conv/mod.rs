//! Convolutions over images, forward and backward.
//!
//! On the CPU they are matrix products of our own: `gather` forward and back to the input, or `winograd` where it needs
//! fewer products, and `correlate` back to the kernels. Where the processor has a matrix unit and it is faster, they are `by_unit` and
//! `sums_by_unit`, `winograd_by_unit`, or `direct` where it multiplies what lies in memory. 16 bits are a storage format: sums have 32 bits, and no 32-bit tensor is allocated. On a GPU they are CubeCL's implicit matrix products.

mod algorithm;
mod by_unit;
mod convolved;
mod correlate;
mod direct;
mod finish;
mod gather;
mod on_gpu;
mod operations;
mod pieces;
mod product;
mod sums_by_unit;
mod winograd;
mod winograd_by_unit;

use burn::tensor::{Tensor, module, ops::ConvOptions};
use burn_backend::DType;

use crate::{
    any_tensor::AnyTensor,
    backends::{Plain, first_backend},
    cast::cast,
    kernels::Kernels,
};

pub use convolved::Convolved;
pub use finish::Finish;

/// Stride and padding of a convolution, equal in both dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Slide {
    /// Pixels between two positions of the kernel.
    pub stride: usize,
    /// Pixels of zeros on each side of the image.
    pub padding: usize,
}

impl Slide {
    /// The options of Burn's operations.
    pub fn options(self) -> ConvOptions<2> {
        ConvOptions::new([self.stride; 2], [self.padding; 2], [1, 1], 1)
    }

    /// The shape of the output `[B, C_out, H, W]` of an input `[B, C_in, H, W]`, by kernels `[C_out, C_in, k, k]` that fit.
    pub fn output(self, input: [usize; 4], weight: [usize; 4]) -> [usize; 4] {
        let along = |axis| (input[axis] + 2 * self.padding - weight[axis]) / self.stride + 1;
        [input[0], weight[0], along(2), along(3)]
    }
}

/// A convolution of plain tensors: `input` `[B, C_in, H, W]`, `weight` `[C_out, C_in, k, k]`. The output has the input's
/// format.
pub fn conv2d(input: Tensor<4>, weight: Tensor<4>, slide: Slide, kernels: Kernels) -> Tensor<4> {
    let dtype = input.dtype();
    let narrow = |weight| cast(weight, dtype, kernels);
    match kernels {
        Kernels::Cpu => operations::forward(input, weight, slide),
        Kernels::Gpu => on_gpu::forward(input, narrow(weight), slide),
        Kernels::Composed => module::conv2d(input, narrow(weight), None, slide.options()),
    }
}

/// As [`conv2d`], with a normalisation and what follows it.
pub fn conv2d_finished(
    input: Tensor<4>,
    weight: Tensor<4>,
    slide: Slide,
    finish: Finish,
    kernels: Kernels,
) -> Tensor<4> {
    let dtype = input.dtype();
    let has_its_format = |addend: &Tensor<4>| addend.dtype() == dtype;
    if kernels == Kernels::Cpu && finish.addend.as_ref().is_none_or(has_its_format) {
        return operations::forward_finished(input, weight, slide, finish);
    }
    finish.apply(conv2d(input, weight, slide, kernels), dtype, kernels)
}

/// The gradients of a convolution.
#[derive(Debug)]
pub struct ConvGradients {
    /// The gradient of the input, in the format of the output's gradient, if wanted.
    pub input: Option<Tensor<4>>,
    /// The gradient of the weight, in 32 bits, if wanted.
    pub weight: Option<Tensor<4>>,
}

/// The gradients of [`conv2d`]. `wanted`: whether input and weight want one. The weight's gradient needs `input`, which is
/// freed before the input's gradient is allocated.
pub fn conv2d_backward(
    input: impl FnOnce() -> Tensor<4>,
    input_shape: [usize; 4],
    weight: Tensor<4>,
    gradient: Tensor<4>,
    slide: Slide,
    wanted: [bool; 2],
    kernels: Kernels,
) -> ConvGradients {
    let weight_gradient = wanted[1].then(|| match kernels {
        Kernels::Cpu => operations::weight_backward(input(), weight.dims(), gradient.clone(), slide),
        Kernels::Gpu => on_gpu::weight_backward(input(), weight.dims(), gradient.clone(), slide),
        Kernels::Composed => weight_backward_composed(input(), weight.clone(), gradient.clone(), slide),
    });
    let input_gradient = wanted[0].then(|| {
        let dtype = gradient.dtype();
        let narrow = |weight| cast(weight, dtype, kernels);
        match kernels {
            Kernels::Cpu => operations::input_backward(input_shape, weight, gradient, slide),
            Kernels::Gpu => on_gpu::input_backward(input_shape, narrow(weight), gradient, slide),
            Kernels::Composed => input_backward_composed(input_shape, narrow(weight), gradient, slide),
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
    cast(backward_by_burn(&operands, slide, true), DType::F32, Kernels::Composed)
}

fn input_backward_composed(
    input_shape: [usize; 4],
    weight: Tensor<4>,
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    // Only the shape of the input is read: a view of one element has it.
    let one = Tensor::<4>::zeros([1; 4], (&gradient.device(), gradient.dtype())).expand(input_shape);
    let operands = [one, weight, gradient].map(AnyTensor::from);
    backward_by_burn(&operands, slide, false)
}

/// The gradient of the input or of the weight. `operands`: input, weight and the output's gradient.
fn backward_by_burn(operands: &[AnyTensor; 3], slide: Slide, of_weight: bool) -> Tensor<4> {
    let gradient = first_backend!(gradient_on(operands, slide, of_weight));
    // The backend that computed forward computes backward, and a convolution over images has rank 4.
    gradient.and_then(AnyTensor::float).expect("a convolution's gradient is an image or a kernel")
}

fn gradient_on<B: Plain>(operands: &[AnyTensor; 3], slide: Slide, of_weight: bool) -> Option<AnyTensor> {
    let [input, weight, gradient] = operands.each_ref().map(B::primitive);
    let backward = if of_weight { B::conv2d_weight_backward } else { B::conv2d_x_backward };
    Some(B::tensor(backward(input?, weight?, gradient?, slide.options())))
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

    /// Channels and images, few and many, that fill tiles and blocks or leave a rest.
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
        // More channels than one block multiplies, more rows than a task, more pixels than a block.
        cases.push(case(2, [300, 12], [4, 4], [1, 1, 0]));
        cases.push(case(9, [70, 40], [4, 4], [3, 1, 1]));
        cases.push(case(2, [4, 270], [5, 5], [3, 2, 1]));
        cases.push(case(1, [2, 3], [40, 41], [3, 1, 1]));
        cases.push(case(2, [3, 2], [36, 36], [1, 1, 0]));
        // So many channels that Winograd is faster.
        cases.push(case(4, [70, 60], [16, 15], [3, 1, 1]));
        // So many channels that the matrix unit is faster for 32 bits too.
        for (kernel, stride, padding) in [(1, 1, 0), (1, 2, 0), (3, 1, 1), (3, 2, 1), (3, 3, 0), (1, 1, 1)] {
            cases.push(case(3, [290, 210], [7, 5], [kernel, stride, padding]));
            cases.push(case(2, [1, 5], [4, 4], [kernel, stride, padding]));
        }
        // Whole steps of channels, whose pixels are paired, and small images, which stand side by side.
        for (kernel, stride, padding) in [(3, 1, 1), (3, 1, 0), (3, 2, 1), (5, 1, 2), (2, 1, 1)] {
            cases.push(case(2, [32, 64], [20, 33], [kernel, stride, padding]));
            cases.push(case(19, [64, 256], [5, 6], [kernel, stride, padding]));
        }
        cases.push(case(2, [40, 130], [24, 25], [3, 1, 1]));
        cases.push(case(2, [210, 210], [23, 24], [1, 1, 0]));
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

        /// Input, weight and gradient of the output: small whole numbers, whose sums of products are exact.
        fn values(self) -> [Vec<f32>; 3] {
            let value = |at: usize, salt: usize| ((at * 37 + at / 7 * salt) % 11) as f32 - 5.0;
            let [input, weight, gradient] = self.dims().map(|dims| dims.iter().product::<usize>());
            [(input, 1), (weight, 3), (gradient, 5)]
                .map(|(count, salt)| (0..count).map(|at| value(at, salt)).collect())
        }

        /// The output, the input's gradient and the weight's gradient, computed by plain loops.
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

        /// The same three results, computed by `kernels` in the format `dtype`.
        fn made(self, kernels: Kernels, dtype: DType) -> [Vec<f32>; 3] {
            let [x, w, g] = self.values();
            let [input, weight, output] = self.dims();
            let tensor = |values: Vec<f32>, dims: [usize; 4]| {
                let tensor = Tensor::<4>::from_data(TensorData::new(values, dims), &Device::flex());
                cast(tensor, dtype, Kernels::Cpu)
            };
            let (x, w, g) = (tensor(x, input), tensor(w, weight), tensor(g, output));
            let made = conv2d(x.clone(), w.clone(), self.slide, kernels);
            let gradients = conv2d_backward(|| x, input, w, g, self.slide, [true; 2], kernels);
            [Some(made), gradients.input, gradients.weight].map(|tensor| {
                let tensor = cast(tensor.expect("it is wanted"), DType::F32, Kernels::Cpu);
                AnyTensor::from(tensor).to_host().expect("the CPU does not fail")
            })
        }
    }

    #[test]
    fn every_result_is_the_sum_of_its_products() {
        for case in cases() {
            let (made, expected) = (case.made(Kernels::Cpu, DType::F32), case.expected());
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
                    let narrow = cast(cast(wide, dtype, Kernels::Cpu), DType::F32, Kernels::Cpu);
                    AnyTensor::from(narrow).to_host().expect("the CPU does not fail")
                };
                let expected = [rounded(output), rounded(input), weight];
                assert_eq!(case.made(Kernels::Cpu, dtype), expected, "{case:?} {dtype:?}");
            }
        }
    }

    #[test]
    fn kernels_of_32_bits_are_rounded_as_by_a_cast() {
        let tensor = |dims: [usize; 4]| {
            let values = (0..dims.iter().product()).map(|at: usize| (at * 7919 % 1013) as f32 / 1013.0 - 0.5);
            Tensor::<4>::from_data(TensorData::new(values.collect::<Vec<f32>>(), dims), &Device::flex())
        };
        for (case, dtype) in cases().into_iter().flat_map(|case| [(case, DType::BF16), (case, DType::F16)]) {
            let [input, weight, output] = case.dims();
            let narrow = |tensor| cast(tensor, dtype, Kernels::Cpu);
            let [x, g] = [input, output].map(|dims| narrow(tensor(dims)));
            let both = [tensor(weight), narrow(tensor(weight))].map(|w| {
                let made = conv2d(x.clone(), w.clone(), case.slide, Kernels::Cpu);
                let x = x.clone();
                let back = conv2d_backward(|| x, input, w, g.clone(), case.slide, [true; 2], Kernels::Cpu);
                [Some(made), back.input].map(|tensor| {
                    let wide = cast(tensor.expect("it is wanted"), DType::F32, Kernels::Cpu);
                    AnyTensor::from(wide).to_host().expect("the CPU does not fail")
                })
            });
            assert_eq!(both[0], both[1], "{case:?} {dtype:?}");
        }
    }

    #[test]
    fn of_an_empty_batch_the_gradient_of_kernels_is_zero() {
        for dtype in [DType::F32, DType::BF16] {
            for taps in [1, 3] {
                let made = case(0, [200, 210], [4, 4], [taps, 1, taps / 2]).made(Kernels::Cpu, dtype);
                let counts = made.each_ref().map(Vec::len);
                assert_eq!(counts, [0, 0, 200 * 210 * taps * taps], "{dtype:?}");
                assert!(made[2].iter().all(|value| *value == 0.0), "{dtype:?}");
            }
        }
    }

    #[test]
    fn the_bits_do_not_depend_on_the_number_of_threads() {
        // Numbers whose sum depends on the order of summation.
        let value = |at: usize| ((at * 7919 % 1013) as f32 / 1013.0 - 0.5).exp();
        let tensor = |dims: [usize; 4], dtype: DType| {
            let values: Vec<f32> = (0..dims.iter().product()).map(value).collect();
            cast(Tensor::<4>::from_data(TensorData::new(values, dims), &Device::flex()), dtype, Kernels::Cpu)
        };
        let cases = [
            case(6, [70, 90], [4, 4], [3, 1, 1]),
            case(3, [33, 65], [20, 20], [3, 2, 1]),
            case(1, [600, 40], [7, 7], [1, 1, 0]),
            case(9, [150, 90], [9, 8], [3, 1, 1]),
            // Those of the matrix unit, for 32 bits too.
            case(5, [220, 230], [9, 8], [1, 1, 0]),
            case(9, [150, 330], [9, 8], [3, 2, 1]),
            // Those of planes.
            case(2, [64, 96], [30, 30], [3, 1, 1]),
            case(19, [64, 256], [4, 4], [3, 1, 1]),
        ];
        for (case, dtype) in cases.into_iter().flat_map(|case| [(case, DType::F32), (case, DType::BF16)]) {
            let [input, weight, output] = case.dims();
            let all = |threads: usize| {
                let pool =
                    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
                pool.install(|| {
                    let (x, w, g) = (tensor(input, dtype), tensor(weight, dtype), tensor(output, dtype));
                    let made = conv2d(x.clone(), w.clone(), case.slide, Kernels::Cpu);
                    let back = conv2d_backward(|| x, input, w, g, case.slide, [true; 2], Kernels::Cpu);
                    [Some(made), back.input, back.weight].map(|tensor| {
                        let wide = cast(tensor.expect("it is wanted"), DType::F32, Kernels::Cpu);
                        let values = AnyTensor::from(wide).to_host();
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
                assert!(all(threads) == alone, "{case:?} {dtype:?} with {threads} threads");
            }
        }
    }
}
