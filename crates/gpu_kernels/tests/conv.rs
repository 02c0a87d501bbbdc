//! Convolutions against plain sums in 64 bits.

#![cfg(feature = "gpu")]

mod common;

use burn_backend::{DType, ops::ConvOptions};
use common::{Memory, error, has_driver, image, noise, rounded, to_gpu, to_host};
use cubecl::{
    Runtime,
    ir::{ElemType, FloatKind, features::MmaConfig},
};
use oomph_gpu_kernels::{GpuRuntime, conv2d, conv2d_input_backward, conv2d_weight_backward};

/// A convolution: batch, channels in and out, height and width, kernel, stride and padding.
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    channels: [usize; 2],
    size: [usize; 2],
    kernel: usize,
    stride: usize,
    padding: usize,
}

const fn case(batch: usize, channels: [usize; 2], size: [usize; 2], window: [usize; 3]) -> Case {
    let [kernel, stride, padding] = window;
    Case { batch, channels, size, kernel, stride, padding }
}

const CASES: [Case; 18] = [
    case(2, [16, 32], [8, 8], [3, 1, 1]),
    case(2, [3, 64], [8, 8], [3, 1, 1]),
    case(2, [3, 64], [16, 16], [7, 2, 3]),
    case(2, [16, 64], [8, 8], [3, 1, 1]),
    case(2, [64, 128], [8, 8], [3, 2, 1]),
    case(2, [128, 128], [4, 4], [3, 1, 1]),
    case(2, [64, 256], [7, 7], [1, 1, 0]),
    case(2, [256, 64], [7, 7], [1, 1, 0]),
    case(2, [64, 128], [8, 8], [1, 2, 0]),
    case(40, [1, 8], [9, 9], [5, 1, 2]),
    case(2, [3, 5], [6, 7], [3, 1, 1]),
    case(2, [16, 16], [8, 8], [3, 1, 1]),
    case(2, [16, 32], [8, 8], [3, 2, 1]),
    case(2, [16, 32], [8, 8], [1, 2, 0]),
    case(1, [8, 24], [5, 5], [1, 1, 0]),
    case(3, [3, 16], [16, 16], [7, 2, 3]),
    case(1, [32, 32], [1, 1], [3, 1, 1]),
    case(2, [17, 9], [7, 4], [3, 2, 1]),
];

impl Case {
    fn input(&self) -> [usize; 4] {
        [self.batch, self.channels[0], self.size[0], self.size[1]]
    }

    fn weight(&self) -> [usize; 4] {
        [self.channels[1], self.channels[0], self.kernel, self.kernel]
    }

    fn output(&self) -> [usize; 4] {
        let size = |size: usize| (size + 2 * self.padding - self.kernel) / self.stride + 1;
        [self.batch, self.channels[1], size(self.size[0]), size(self.size[1])]
    }

    fn options(&self) -> ConvOptions<2> {
        ConvOptions::new([self.stride; 2], [self.padding; 2], [1; 2], 1)
    }

    /// Calls `term` with the places of input, weight and output of every product.
    fn each_product(&self, mut term: impl FnMut(usize, usize, usize)) {
        let ([batch, channels, height, width], [_, _, kernel, _]) = (self.input(), self.weight());
        let [_, outputs, rows, columns] = self.output();
        let inside = |at: usize, tap: usize, size: usize| {
            (at * self.stride + tap).checked_sub(self.padding).filter(|place| *place < size)
        };
        for sample in 0..batch {
            for output in 0..outputs {
                for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                    let of_output = ((sample * outputs + output) * rows + row) * columns + column;
                    for channel in 0..channels {
                        for (down, across) in (0..kernel).flat_map(|d| (0..kernel).map(move |a| (d, a))) {
                            let (Some(y), Some(x)) =
                                (inside(row, down, height), inside(column, across, width))
                            else {
                                continue;
                            };
                            let of_input = ((sample * channels + channel) * height + y) * width + x;
                            let of_weight = ((output * channels + channel) * kernel + down) * kernel + across;
                            term(of_input, of_weight, of_output);
                        }
                    }
                }
            }
        }
    }
}

/// The largest error by norm: 32-bit factors are rounded to 10 bits where the card has TF32.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 | DType::F16 => 1e-3,
        _ => 8e-3,
    }
}

fn check(case: &Case, dtype: DType, memory: Memory) -> Vec<String> {
    let count = |shape: [usize; 4]| shape.iter().product::<usize>();
    let values = |shape, seed| rounded(&noise(count(shape), seed), dtype);
    let (input, weight, gradient) =
        (values(case.input(), 1), values(case.weight(), 2), values(case.output(), 3));
    let of_input = image(&input, case.input(), dtype, memory);
    let of_weight = to_gpu(&weight, &case.weight(), dtype);
    let of_gradient = image(&gradient, case.output(), dtype, memory);
    let mut right = [vec![0.0; gradient.len()], vec![0.0; input.len()], vec![0.0; weight.len()]];
    case.each_product(|i, w, o| {
        right[0][o] += input[i] * weight[w];
        right[1][i] += gradient[o] * weight[w];
        right[2][w] += gradient[o] * input[i];
    });
    let found = [
        conv2d(of_input.clone(), of_weight.clone(), case.options()),
        conv2d_input_backward(of_gradient.clone(), of_weight, case.input(), case.options()),
        conv2d_weight_backward(of_input, of_gradient, case.weight(), case.options()),
    ];
    let names = ["forward", "to the input", "to the weight"];
    let errors = found.into_iter().zip(&right).map(|(found, right)| error(&to_host(found), right));
    let wrong =
        names.into_iter().zip(errors).filter(|(_, error)| error.is_nan() || *error > tolerance(dtype));
    wrong.map(|(name, error)| format!("{case:?} {dtype:?} {memory:?} {name}: error {error:.1e}")).collect()
}

/// The formats that this card multiplies: cards before sm_80 have no products of bf16, and Vulkan's shaders sum products of fp16
/// in 16 bits.
fn formats_of_products() -> Vec<DType> {
    if cfg!(not(feature = "cuda")) {
        return vec![DType::F32];
    }
    let client = GpuRuntime::client(&Default::default());
    let has_tf32 = |config: &MmaConfig| config.a_type == ElemType::Float(FloatKind::TF32).into();
    let mut formats = vec![DType::F32, DType::F16];
    formats.extend(client.properties().features.matmul.cmma.iter().any(has_tf32).then_some(DType::BF16));
    formats
}

/// 512 cubes share 525,312 positions, of which the last ones get none.
#[test]
fn cubes_without_positions_sum_nothing() {
    if !has_driver() {
        return;
    }
    let case = case(513, [1, 1], [32, 32], [1, 1, 0]);
    let values = |seed| rounded(&noise(513 * 32 * 32, seed), DType::F32);
    let (input, gradient) = (values(1), values(3));
    let right = input.iter().zip(&gradient).map(|(input, gradient)| input * gradient).sum::<f64>();
    let found = conv2d_weight_backward(
        image(&input, case.input(), DType::F32, Memory::ChannelsFirst),
        image(&gradient, case.output(), DType::F32, Memory::ChannelsFirst),
        case.weight(),
        case.options(),
    );
    let found = to_host(found)[0];
    // Noise adds up to about the square root of its count; factors are rounded to 10 bits.
    let size = (input.len() as f64).sqrt();
    assert!((found - right).abs() < 1e-3 * size, "{found} instead of {right}");
}

#[test]
fn convolutions_and_their_gradients_are_sums_of_products() {
    if !has_driver() {
        return;
    }
    let formats = formats_of_products();
    let mut wrong = Vec::new();
    for dtype in formats {
        for (index, case) in CASES.iter().enumerate() {
            wrong.extend(check(case, dtype, Memory::ChannelsFirst));
            let last = [Memory::ChannelsLast, Memory::PaddedPixels][index % 2];
            wrong.extend(check(case, dtype, last));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
