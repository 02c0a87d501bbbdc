//! Normalisation against a plain computation in 64 bits.

#![cfg(feature = "gpu")]

mod common;

use burn_backend::DType;
use common::{
    FORMATS,
    Memory::{self, ChannelsFirst, ChannelsLast, PaddedPixels},
    assert_close, has_driver, image, is_channels_last, noise, rounded, to_host, vector,
};
use oomph_gpu_kernels::{
    GpuTensor,
    norm::{
        Addend, Affine, Moments, NormInput, NormSums, StatisticsStep, input_gradient, moments, normalise,
        normalise_backward, rectify_backward, statistics, sums,
    },
};

/// `[B, C, H, W]`: one element, rows of any width, one part of a channel and several, the last of them shorter. Channels-last:
/// any number of channels, one part of the pixels and several, the last of them shorter.
const SHAPES: [([usize; 4], Memory); 15] = [
    ([1, 1, 1, 1], ChannelsFirst),
    ([3, 5, 1, 1], ChannelsFirst),
    ([2, 3, 7, 7], ChannelsFirst),
    ([4, 6, 4, 4], ChannelsFirst),
    ([1, 9, 5, 6], ChannelsFirst),
    ([3, 2, 61, 41], ChannelsFirst),
    ([5, 3, 32, 40], ChannelsFirst),
    ([1, 2, 1, 1], ChannelsLast),
    ([3, 16, 1, 1], ChannelsLast),
    ([2, 3, 7, 7], ChannelsLast),
    ([2, 24, 5, 6], PaddedPixels),
    ([1, 80, 3, 5], ChannelsLast),
    ([3, 2, 61, 41], ChannelsLast),
    ([2, 64, 16, 17], ChannelsLast),
    ([5, 12, 31, 10], PaddedPixels),
];

/// Whether an image of this shape is taken as channels-last.
fn is_last([_, channels, height, width]: [usize; 4], memory: Memory) -> bool {
    // With one pixel the orders are one.
    height * width == 1 || channels > 1 && memory != ChannelsFirst
}

/// The memory of the other images: in turn all.
fn other(case: usize) -> Memory {
    [ChannelsLast, ChannelsFirst, PaddedPixels][case % 3]
}

fn count(shape: [usize; 4]) -> usize {
    shape.iter().product()
}

fn channel(shape: [usize; 4], at: usize) -> usize {
    at / (shape[2] * shape[3]) % shape[1]
}

/// Sums over the values of each channel.
fn channel_sums(shape: [usize; 4], values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sums = vec![0.0; shape[1]];
    values.enumerate().for_each(|(at, value)| sums[channel(shape, at)] += value);
    sums
}

/// A normalisation and its vectors.
struct Norm {
    mean: Vec<f64>,
    inverse: Vec<f64>,
    scale: Vec<f64>,
    shift: Vec<f64>,
}

impl Norm {
    fn new(channels: usize, seed: u64) -> Self {
        let [mean, inverse, scale, shift] = [0, 1, 2, 3].map(|index| noise(channels, seed + index));
        let inverse = rounded(&inverse.iter().map(|value| value + 1.5).collect::<Vec<_>>(), DType::F32);
        Self { mean, inverse, scale, shift }
    }

    fn affine(&self) -> Affine<oomph_gpu_kernels::GpuRuntime> {
        Affine { mean: vector(&self.mean), scale: vector(&self.scale), shift: vector(&self.shift) }
    }

    fn normed(&self, channel: usize, value: f64) -> f64 {
        (value - self.mean[channel]) * self.scale[channel] + self.shift[channel]
    }

    fn input(&self, input: GpuTensor, rectified: bool) -> NormInput<oomph_gpu_kernels::GpuRuntime> {
        NormInput { input, affine: self.affine(), inverse: vector(&self.inverse), rectified }
    }
}

#[test]
fn running_statistics_move_towards_those_of_a_batch() {
    if !has_driver() {
        return;
    }
    for channels in [1, 3, 64, 1000] {
        let of = |seed, shift: f64| -> Vec<f64> {
            rounded(&noise(channels, seed), DType::F32).iter().map(|value| value + shift).collect()
        };
        let [mean, variance, running_mean, running_variance] =
            [of(1, 0.0), of(2, 2.0), of(3, 0.0), of(4, 2.0)];
        let step = StatisticsStep { kept: 0.75, shares: [0.25, 0.3125], epsilon: 0.5 };
        let [mean_of, variance_of] = [[&mean, &running_mean], [&variance, &running_variance]];
        let moved = |[batch, running]: [&Vec<f64>; 2], share: f64| -> Vec<f64> {
            batch.iter().zip(running).map(|(batch, running)| 0.75 * running + share * batch).collect()
        };
        let inverse: Vec<f64> = variance.iter().map(|variance| (variance + 0.5).sqrt().recip()).collect();
        let pair =
            |mean: &[f64], variance: &[f64]| Moments { mean: vector(mean), variance: vector(variance) };
        let found = statistics(pair(&mean, &variance), pair(&running_mean, &running_variance), step);
        assert_close(found.inverse, &inverse, DType::F32, &format!("inverse of {channels}"));
        assert_close(found.running.mean, &moved(mean_of, 0.25), DType::F32, &format!("mean of {channels}"));
        let variance = moved(variance_of, 0.3125);
        assert_close(found.running.variance, &variance, DType::F32, &format!("variance of {channels}"));
    }
}

#[test]
fn moments_are_mean_and_variance_of_channels() {
    if !has_driver() {
        return;
    }
    for (shape, memory) in SHAPES {
        for dtype in FORMATS {
            // A mean far from 0 makes sums of squares cancel.
            let values: Vec<f64> = noise(count(shape), 1).iter().map(|value| value + 50.0).collect();
            let values = rounded(&values, dtype);
            let n = (shape[0] * shape[2] * shape[3]) as f64;
            let mean: Vec<f64> =
                channel_sums(shape, values.iter().copied()).iter().map(|sum| sum / n).collect();
            let squares =
                values.iter().enumerate().map(|(at, value)| (value - mean[channel(shape, at)]).powi(2));
            let variance: Vec<f64> = channel_sums(shape, squares).iter().map(|sum| sum / n).collect();
            let found = moments(image(&values, shape, dtype, memory));
            assert_close(found.mean, &mean, DType::F32, &format!("mean of {shape:?} {memory:?} {dtype:?}"));
            if n > 1.0 {
                assert_close(
                    found.variance,
                    &variance,
                    DType::F32,
                    &format!("variance of {shape:?} {memory:?} {dtype:?}"),
                );
            } else {
                assert_eq!(to_host(found.variance), variance);
            }
        }
    }
}

#[test]
fn inputs_are_normalised_with_addend_and_relu() {
    if !has_driver() {
        return;
    }
    for (index, (shape, memory)) in SHAPES.into_iter().enumerate() {
        let (norm, added_norm) = (Norm::new(shape[1], 10), Norm::new(shape[1], 20));
        for (format, dtype) in FORMATS.into_iter().enumerate() {
            let output = FORMATS[(format + index) % FORMATS.len()];
            let added = FORMATS[(format + index / 3) % FORMATS.len()];
            let values = rounded(&noise(count(shape), 2), dtype);
            let addend = rounded(&noise(count(shape), 3), added);
            for kind in ["no", "plain", "normed"] {
                for rectify in [false, true] {
                    let expected = values.iter().zip(&addend).enumerate().map(|(at, (value, addend))| {
                        let channel = channel(shape, at);
                        let sum = norm.normed(channel, *value)
                            + match kind {
                                "no" => 0.0,
                                "plain" => *addend,
                                _ => added_norm.normed(channel, *addend),
                            };
                        if rectify { sum.max(0.0) } else { sum }
                    });
                    let expected: Vec<f64> = expected.collect();
                    let term = (kind != "no").then(|| Addend {
                        values: image(&addend, shape, added, other(index)),
                        affine: (kind == "normed").then(|| added_norm.affine()),
                    });
                    let input = image(&values, shape, dtype, memory);
                    let found = normalise(input, norm.affine(), term, rectify, output);
                    assert_eq!(found.dtype, output);
                    assert_eq!(is_channels_last(&found), is_last(shape, memory));
                    let what = format!(
                        "{shape:?} {memory:?} {dtype:?} → {output:?}, {kind} addend of {added:?}, ReLU {rectify}"
                    );
                    assert_close(found, &expected, output, &what);
                }
            }
        }
    }
}

#[test]
fn an_input_is_overwritten_unless_somebody_holds_it() {
    if !has_driver() {
        return;
    }
    let shape = [2, 3, 4, 4];
    let norm = Norm::new(3, 30);
    let values = noise(count(shape), 4);
    for memory in [ChannelsFirst, ChannelsLast] {
        let input = image(&values, shape, DType::F32, memory);
        let kept = input.clone();
        let output = normalise(input, norm.affine(), None, false, DType::F32);
        assert_eq!(to_host(kept.clone()), values);
        let in_place = normalise(kept, norm.affine(), None, false, DType::F32);
        assert_eq!(to_host(in_place), to_host(output));
    }
}

/// The gradients in 64 bits: of input, weight and shift.
fn expected_gradients(
    norm: &Norm,
    shape: [usize; 4],
    values: &[f64],
    gradient: &[f64],
    rectified: bool,
) -> [Vec<f64>; 3] {
    let masked = |at: usize| {
        let passes = !rectified || norm.normed(channel(shape, at), values[at]) > 0.0;
        if passes { gradient[at] } else { 0.0 }
    };
    let normed = |at: usize| {
        let channel = channel(shape, at);
        (values[at] - norm.mean[channel]) * norm.inverse[channel]
    };
    let weight = channel_sums(shape, (0..values.len()).map(|at| masked(at) * normed(at)));
    let shift = channel_sums(shape, (0..values.len()).map(masked));
    let n = (shape[0] * shape[2] * shape[3]) as f64;
    let input = (0..values.len()).map(|at| {
        let channel = channel(shape, at);
        norm.scale[channel] * (masked(at) - shift[channel] / n - normed(at) * weight[channel] / n)
    });
    [input.collect(), weight, shift]
}

#[test]
fn gradients_of_a_normalisation() {
    if !has_driver() {
        return;
    }
    for (index, (shape, memory)) in SHAPES.into_iter().enumerate() {
        let norm = Norm::new(shape[1], 40);
        for (format, dtype) in FORMATS.into_iter().enumerate() {
            let of_gradient = FORMATS[(format + index) % FORMATS.len()];
            for rectified in [false, true] {
                let values = rounded(&noise(count(shape), 5), dtype);
                let gradient = rounded(&noise(count(shape), 6), of_gradient);
                let what =
                    format!("{shape:?} {memory:?} {dtype:?}, gradient {of_gradient:?}, ReLU {rectified}");
                let [input, weight, shift] = expected_gradients(&norm, shape, &values, &gradient, rectified);
                let norm_input = || norm.input(image(&values, shape, dtype, memory), rectified);
                let of_output = || image(&gradient, shape, of_gradient, other(index));

                let found = normalise_backward(norm_input(), of_output());
                assert_eq!(found.input.dtype, dtype);
                assert_eq!(is_channels_last(&found.input), is_last(shape, memory));
                // One value is its own mean, and its gradient 0 but for rounding.
                let is_alone = shape[0] * shape[2] * shape[3] == 1;
                if !is_alone {
                    assert_close(found.input, &input, dtype, &format!("input of {what}"));
                }
                assert_close(found.sums.weight, &weight, DType::F32, &format!("weight of {what}"));
                assert_close(found.sums.shift, &shift, DType::F32, &format!("shift of {what}"));

                let alone = sums(norm_input(), of_output());
                assert_close(alone.weight.clone(), &weight, DType::F32, &format!("weight alone of {what}"));
                assert_close(alone.shift.clone(), &shift, DType::F32, &format!("shift alone of {what}"));
                let from_sums = input_gradient(norm_input(), of_output(), alone);
                if !is_alone {
                    assert_close(from_sums, &input, dtype, &format!("input from sums of {what}"));
                }
            }
        }
    }
}

#[test]
fn the_sums_of_all_replicas_enter_the_gradient() {
    if !has_driver() {
        return;
    }
    for memory in [ChannelsFirst, ChannelsLast] {
        check_sums_of_replicas([3, 2, 61, 41], memory);
    }
}

fn check_sums_of_replicas(shape: [usize; 4], memory: Memory) {
    let norm = Norm::new(2, 50);
    let (values, gradient) = (noise(count(shape), 7), noise(count(shape), 8));
    let n = (shape[0] * shape[2] * shape[3]) as f64;
    let (weight, shift) = ([300.0, -200.0], [100.0, 50.0]);
    let expected = (0..values.len()).map(|at| {
        let channel = channel(shape, at);
        let normed = (values[at] - norm.mean[channel]) * norm.inverse[channel];
        norm.scale[channel] * (gradient[at] - shift[channel] / n - normed * weight[channel] / n)
    });
    let expected: Vec<f64> = expected.collect();
    let of_all = NormSums { weight: vector(&weight), shift: vector(&shift) };
    let input = norm.input(image(&values, shape, DType::F32, memory), false);
    let found = input_gradient(input, image(&gradient, shape, DType::F32, memory), of_all);
    assert_close(found, &expected, DType::F32, "input");
}

#[test]
fn a_gradient_passes_where_the_output_is_above_0() {
    if !has_driver() {
        return;
    }
    for (case, (shape, memory)) in SHAPES.into_iter().enumerate() {
        for (index, dtype) in FORMATS.into_iter().enumerate() {
            let of_output = FORMATS[(index + shape[0]) % FORMATS.len()];
            let gradient = rounded(&noise(count(shape), 9), dtype);
            let output = rounded(&noise(count(shape), 10), of_output);
            let expected = gradient
                .iter()
                .zip(&output)
                .map(|(gradient, output)| if *output > 0.0 { *gradient } else { 0.0 });
            let expected: Vec<f64> = expected.collect();
            let gradient = image(&gradient, shape, dtype, other(case));
            let found = rectify_backward(gradient, image(&output, shape, of_output, memory));
            assert_eq!(is_channels_last(&found), is_last(shape, memory));
            assert_eq!(to_host(found), expected, "{shape:?} {memory:?} {dtype:?}");
        }
    }
}
