use burn::tensor::Tensor;

use super::on_gpu;
use crate::kernels::Kernels;

/// How a batch's statistics enter the running ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatisticsStep {
    /// The share of the running statistics that stays.
    pub kept: f64,
    /// The share of the batch's mean, and of its biased variance.
    pub shares: [f64; 2],
    /// ε.
    pub epsilon: f64,
}

/// What follows from the moments of a batch.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// 1 / √(variance + ε) of each channel, `[C]`.
    pub inverse: Tensor<1>,
    /// The running mean and variance after the step, `[C]`.
    pub running: [Tensor<1>; 2],
}

/// The `running` mean and variance, moved towards the `moments` of a batch, its mean and biased variance, and the inverse
/// deviation of these. All are `[C]`, off the autodiff graph.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use oomph_kernels::{Kernels, norm::{StatisticsStep, statistics}};
///
/// let vector = |value: f32| Tensor::<1>::from_floats([value], &Device::flex());
/// let step = StatisticsStep { kept: 0.5, shares: [0.5, 1.0], epsilon: 0.0 };
/// let made = statistics(&[vector(2.0), vector(4.0)], [vector(0.0), vector(1.0)], step, Kernels::Composed);
/// let values = [made.inverse, made.running[0].clone(), made.running[1].clone()];
/// assert_eq!(values.map(|one| one.into_scalar::<f32>()), [0.5, 1.0, 4.5]);
/// ```
pub fn statistics(
    moments: &[Tensor<1>; 2],
    running: [Tensor<1>; 2],
    step: StatisticsStep,
    kernels: Kernels,
) -> Statistics {
    if kernels == Kernels::Gpu {
        return on_gpu::statistics(moments, running, step);
    }
    let running = running_statistics(moments, running, step);
    let [_, variance] = moments;
    Statistics { running, inverse: variance.clone().add_scalar(step.epsilon).sqrt().recip() }
}

/// The `running` mean and variance, moved towards the `moments` of a batch, composed of Burn's operations.
pub fn running_statistics(
    moments: &[Tensor<1>; 2],
    running: [Tensor<1>; 2],
    step: StatisticsStep,
) -> [Tensor<1>; 2] {
    let [mean, variance] = moments;
    let [running_mean, running_variance] = running;
    let moved = |running: Tensor<1>, batch: &Tensor<1>, share: f64| {
        running.mul_scalar(step.kept) + batch.clone().mul_scalar(share)
    };
    [moved(running_mean, mean, step.shares[0]), moved(running_variance, variance, step.shares[1])]
}
