use burn::tensor::Tensor;
use burn_backend::DType;
use oomph_gpu_kernels::channel_partial_sums;
use rayon::prelude::*;

use super::channel_rows::{ChannelRows, rows_of};
use crate::{
    any_tensor::ranked,
    custom_op::CustomOp,
    flex_tensor::vector,
    gpu::{self, on_gpu},
    kernels::Kernels,
    simd::{SimdLoops, multiply_add, vectorised},
    stored_float::{BLOCK, StoredFloats},
    workers,
};

/// Mean and biased variance of each channel of `[B, C, H, W]`, as `[C]` in 32 bits.
pub fn moments(input: &Tensor<4>, kernels: Kernels) -> [Tensor<1>; 2] {
    let shape @ ChannelRows { channels, .. } = ChannelRows::of(input);
    if kernels == Kernels::Composed {
        // Over space and then over the batch: the sums keep one order, whatever the number of threads.
        let flat = rows_of(input.clone());
        let mean = flat.clone().mean_dim(2).mean_dim(0);
        let variance = (flat - mean.clone()).square().mean_dim(2).mean_dim(0);
        return [mean.reshape([channels]), variance.reshape([channels])];
    }
    let operation = CustomOp {
        name: "channel_moments",
        inputs: vec![input.clone().into()],
        outputs: vec![(vec![channels], DType::F32); 2],
        in_place: 0,
    };
    if kernels == Kernels::Gpu {
        let partial = channel_partial_sums(input.dims(), input.dtype().size());
        let made = gpu::outputs(on_gpu!(operation, [partial], |inputs| {
            let [input] = gpu::listed(inputs);
            let moments = oomph_gpu_kernels::norm::moments(input);
            vec![moments.mean, moments.variance]
        }));
        return made.map(ranked);
    }
    let made = operation.run(|inputs| {
        let of = |channel| {
            let mut found = (0.0, 0.0);
            vectorised(Moments { values: StoredFloats::of(&inputs[0]), shape, channel, found: &mut found });
            found
        };
        let moments = workers::map((0..channels).into_par_iter(), of);
        let (mean, variance) = moments.unzip();
        vec![vector(mean), vector(variance)]
    });
    made.map(ranked)
}

/// Finds mean and variance of a channel.
struct Moments<'a> {
    values: StoredFloats<'a>,
    shape: ChannelRows,
    channel: usize,
    found: &'a mut (f32, f32),
}

impl SimdLoops for Moments<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { values, shape, channel, found } = self;
        let mut buffer = [0.0; BLOCK];
        let mut all = Spread { count: 0.0, total: 0.0, squares: 0.0 };
        for block in shape.blocks() {
            all.add::<FUSED>(shape.read(values, channel, &block, &mut buffer));
        }
        *found = ((all.total / shape.count()) as f32, (all.squares / shape.count()) as f32);
    }
}

/// What blocks of values have in common.
struct Spread {
    count: f64,
    total: f64,
    /// The sum of the squares of the distances from the mean.
    squares: f64,
}

impl Spread {
    /// Adds a block, whose values come from memory once: Chan, Golub and LeVeque 1983, equation 2.1b
    /// (<https://doi.org/10.1080/00031305.1983.10483115>).
    #[inline(always)]
    fn add<const FUSED: bool>(&mut self, values: &[f32]) {
        let (total, count) = (sum(values), values.len() as f64);
        let mean = total / count;
        self.squares += sum_of_squares::<FUSED>(values, mean as f32);
        if self.count > 0.0 {
            let distance = mean - self.total / self.count;
            self.squares += distance * distance * self.count * count / (self.count + count);
        }
        self.total += total;
        self.count += count;
    }
}

/// Numbers that are summed side by side. A processor adds 16 at once, and begins with the next ones before these are done.
pub(super) const TRACKS: usize = 32;

/// The sum of values in a fixed order.
#[inline(always)]
fn sum(values: &[f32]) -> f64 {
    let mut sums = [0.0; TRACKS];
    let (whole, rest) = values.as_chunks::<TRACKS>();
    for values in whole {
        for track in 0..TRACKS {
            sums[track] += values[track];
        }
    }
    sums.iter_mut().zip(rest).for_each(|(sum, value)| *sum += value);
    total(&sums)
}

/// The sum of the squares of the distances from the mean, in a fixed order.
#[inline(always)]
fn sum_of_squares<const FUSED: bool>(values: &[f32], mean: f32) -> f64 {
    let mut sums = [0.0; TRACKS];
    let (whole, rest) = values.as_chunks::<TRACKS>();
    for values in whole {
        for track in 0..TRACKS {
            let distance = values[track] - mean;
            sums[track] = multiply_add::<FUSED>(distance, distance, sums[track]);
        }
    }
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum = multiply_add::<FUSED>(value - mean, value - mean, *sum);
    }
    total(&sums)
}

/// The sum of all tracks: of halves, of halves of these, and so on, side by side.
#[inline(always)]
pub(super) fn total(sums: &[f32; TRACKS]) -> f64 {
    let mut wide = [0.0; TRACKS];
    for track in 0..TRACKS {
        wide[track] = f64::from(sums[track]);
    }
    let mut half = TRACKS / 2;
    while half > 0 {
        for track in 0..half {
            wide[track] += wide[half + track];
        }
        half /= 2;
    }
    wide[0]
}
