use burn_backend::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use super::values::Moments;
use crate::{
    launch::{addresses, cube, cubes, length},
    tensor::{contiguous, empty},
};

/// How a batch's statistics enter the running ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatisticsStep {
    /// The share of the running statistics that stays.
    pub kept: f32,
    /// The share of the batch's mean, and of its biased variance.
    pub shares: [f32; 2],
    /// ε.
    pub epsilon: f32,
}

/// What follows from the moments of a batch.
#[derive(Clone, Debug)]
pub struct Statistics<R: CubeRuntime> {
    /// 1 / √(variance + ε) of each channel, `[C]`.
    pub inverse: CubeTensor<R>,
    /// The running statistics after the step.
    pub running: Moments<R>,
}

/// The running statistics, moved towards the moments of a batch, and the inverse deviation of these. All are `[C]` in 32 bits.
///
/// One launch.
pub fn statistics<R: CubeRuntime>(
    moments: Moments<R>,
    running: Moments<R>,
    step: StatisticsStep,
) -> Statistics<R> {
    let [mean, variance] = [moments.mean, moments.variance].map(contiguous);
    let [running_mean, running_variance] = [running.mean, running.variance].map(contiguous);
    let channels = length(&mean);
    let [inverse, next_mean, next_variance] = [(); 3].map(|()| empty(&mean, &[channels], DType::F32));
    let [mean_share, variance_share] = step.shares;
    // SAFETY: all buffers have an element for each channel, and the kernel touches no others.
    unsafe {
        write_statistics::launch_unchecked::<R>(
            &mean.client,
            cubes(&mean, channels),
            cube(),
            addresses(&[&mean]),
            mean.clone().into_buffer_arg(),
            variance.into_buffer_arg(),
            running_mean.into_buffer_arg(),
            running_variance.into_buffer_arg(),
            inverse.clone().into_buffer_arg(),
            next_mean.clone().into_buffer_arg(),
            next_variance.clone().into_buffer_arg(),
            StatisticsStepArgumentLaunch::new(step.kept, mean_share, variance_share, step.epsilon),
            channels,
        );
    }
    Statistics { inverse, running: Moments { mean: next_mean, variance: next_variance } }
}

#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct StatisticsStepArgument {
    kept: f32,
    mean_share: f32,
    variance_share: f32,
    epsilon: f32,
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn write_statistics(
    mean: &[f32],
    variance: &[f32],
    running_mean: &[f32],
    running_variance: &[f32],
    inverse: &mut [f32],
    next_mean: &mut [f32],
    next_variance: &mut [f32],
    step: StatisticsStepArgument,
    channels: usize,
) {
    let channel = ABSOLUTE_POS;
    if channel < channels {
        inverse[channel] = 1.0f32 / (variance[channel] + step.epsilon).sqrt();
        next_mean[channel] = running_mean[channel] * step.kept + mean[channel] * step.mean_share;
        next_variance[channel] =
            running_variance[channel] * step.kept + variance[channel] * step.variance_share;
    }
}
