use burn::tensor::{DType, Device, Tensor};
use oomph_kernels::{
    Kernels,
    conv::{Slide, conv2d, conv2d_backward},
};

use super::{CPU, FORMATS, cool, full_as, probe};
use crate::probe::{Probe, Ready};

/// Channels of input and output, the size of images, the kernel, and the stride.
const SHAPES: [[usize; 5]; 41] = [
    [4, 4, 8, 3, 1],
    [16, 16, 4, 3, 1],
    [64, 64, 4, 3, 1],
    [64, 64, 2, 3, 1],
    [32, 64, 8, 3, 2],
    [8, 8, 8, 1, 1],
    [64, 256, 4, 1, 1],
    [256, 64, 4, 1, 1],
    [3, 64, 32, 3, 1],
    [16, 16, 32, 3, 1],
    [32, 32, 32, 3, 1],
    [64, 64, 32, 3, 1],
    [64, 64, 56, 3, 1],
    [128, 128, 16, 3, 1],
    [256, 256, 8, 3, 1],
    [256, 256, 14, 3, 1],
    [256, 256, 6, 3, 1],
    [512, 512, 3, 3, 1],
    [512, 512, 4, 3, 1],
    [512, 512, 7, 3, 1],
    [64, 128, 32, 3, 2],
    [256, 512, 8, 3, 2],
    [128, 128, 28, 3, 2],
    [512, 512, 8, 3, 2],
    [16, 64, 16, 1, 1],
    [64, 64, 56, 1, 1],
    [64, 256, 24, 1, 1],
    [256, 64, 24, 1, 1],
    [128, 512, 12, 1, 1],
    [512, 128, 12, 1, 1],
    [256, 1024, 14, 1, 1],
    [1024, 256, 14, 1, 1],
    [256, 1024, 6, 1, 1],
    [1024, 256, 6, 1, 1],
    [512, 2048, 3, 1, 1],
    [2048, 512, 3, 1, 1],
    [512, 2048, 4, 1, 1],
    [2048, 512, 4, 1, 1],
    [64, 128, 32, 1, 2],
    [512, 1024, 12, 1, 2],
    [3, 64, 96, 7, 2],
];

/// The most multiplications and additions of a probe, in 32 and in 16 bits.
const MOST: [usize; 2] = [6_000_000_000, 3_000_000_000];

/// A convolution of images.
#[derive(Clone, Copy)]
struct Shape {
    batch: usize,
    channels: [usize; 2],
    size: usize,
    kernel: usize,
    slide: Slide,
}

impl Shape {
    fn new(batch: usize, [input, output, size, kernel, stride]: [usize; 5]) -> Self {
        Self { batch, channels: [input, output], size, kernel, slide: Slide { stride, padding: kernel / 2 } }
    }

    /// The shapes of input, weight and output.
    fn tensors(self) -> [[usize; 4]; 3] {
        let Self { batch, channels: [input, output], size, kernel, slide } = self;
        let after = (size + 2 * slide.padding - kernel) / slide.stride + 1;
        [[batch, input, size, size], [output, input, kernel, kernel], [batch, output, after, after]]
    }

    fn arithmetic(self) -> usize {
        let [_, weight, output] = self.tensors();
        2 * output.iter().product::<usize>() * weight[1..].iter().product::<usize>()
    }

    fn on(self, dtype: DType, device: &Device) -> [Tensor<4>; 3] {
        self.tensors().map(|shape| full_as(shape, dtype, device))
    }
}

pub(super) fn probes() -> Vec<Probe> {
    let mut probes = Vec::new();
    for (dtype, most) in FORMATS.into_iter().zip(MOST) {
        let batches = if dtype == DType::F32 { &[1, 4, 16, 64][..] } else { &[2, 16, 64] };
        for of_images in SHAPES {
            let shapes = batches.iter().map(|batch| Shape::new(*batch, of_images));
            for shape in shapes.filter(|shape| shape.arithmetic() <= most) {
                probes.extend(directions(shape, dtype, CPU, OWN));
            }
        }
    }
    // `memory.lean = false` has Burn's kernels; a few are enough for them.
    for of_images in SHAPES.into_iter().filter(|shape| shape[0] >= 64).step_by(2) {
        for batch in [2, 16] {
            probes.extend(directions(Shape::new(batch, of_images), DType::F32, Kernels::Composed, BURNS));
        }
    }
    probes
}

/// Kinds of forward, of the input's gradient and of the weight's.
const OWN: [&str; 3] = ["conv2d", "conv2d_input_backward", "conv2d_weight_backward"];
const BURNS: [&str; 3] = ["burn conv2d", "burn conv2d_x_backward", "burn conv2d_weight_backward"];

fn directions(shape: Shape, dtype: DType, kernels: Kernels, kinds: [&'static str; 3]) -> [Probe; 3] {
    let [forward, input, weight] = kinds;
    [
        probe(forward, move |device| {
            let [input, weight, _] = shape.on(dtype, device);
            move || -> Ready {
                let (input, weight) = (input.clone(), weight.clone());
                cool(&weight);
                Box::new(move || drop(conv2d(input, weight, shape.slide, kernels)))
            }
        }),
        backward(input, shape, dtype, kernels, [true, false]),
        backward(weight, shape, dtype, kernels, [false, true]),
    ]
}

fn backward(kind: &'static str, shape: Shape, dtype: DType, kernels: Kernels, wanted: [bool; 2]) -> Probe {
    probe(kind, move |device| {
        let [input, weight, gradient] = shape.on(dtype, device);
        move || -> Ready {
            let (input, weight, gradient) = (input.clone(), weight.clone(), gradient.clone());
            let of_input = shape.tensors()[0];
            cool(&weight);
            let run = move || {
                conv2d_backward(move || input, of_input, weight, gradient, shape.slide, wanted, kernels)
            };
            Box::new(move || drop(run()))
        }
    })
}
