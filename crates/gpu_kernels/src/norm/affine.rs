//! A normalisation as a function of each channel.

use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::tensor::contiguous;

/// y ↦ (y − mean) · scale + shift, channel by channel.
#[derive(Clone, Debug)]
pub struct Affine<R: CubeRuntime> {
    /// The mean of each channel, `[C]` in 32 bits.
    pub mean: CubeTensor<R>,
    /// The learned scale of each channel over its standard deviation, `[C]` in 32 bits.
    pub scale: CubeTensor<R>,
    /// The learned shift of each channel, `[C]` in 32 bits.
    pub shift: CubeTensor<R>,
}

impl<R: CubeRuntime> Affine<R> {
    pub(super) fn argument(self) -> AffineVectorsLaunch<R> {
        let [mean, scale, shift] =
            [self.mean, self.scale, self.shift].map(|vector| contiguous(vector).into_buffer_arg());
        AffineVectorsLaunch::new(mean, scale, shift)
    }
}

/// [`Affine`] on the device.
#[derive(CubeType, CubeLaunch)]
pub(super) struct AffineVectors {
    mean: Box<[f32]>,
    scale: Box<[f32]>,
    shift: Box<[f32]>,
}

#[cube]
impl AffineVectors {
    pub(super) fn of_channel(&self, channel: usize) -> ChannelAffine {
        ChannelAffine { mean: self.mean[channel], scale: self.scale[channel], shift: self.shift[channel] }
    }
}

/// [`Affine`] for one channel.
#[derive(CubeType, Clone, Copy)]
pub(super) struct ChannelAffine {
    pub(super) mean: f32,
    pub(super) scale: f32,
    shift: f32,
}

#[cube]
impl ChannelAffine {
    pub(super) fn normed<N: Size>(&self, values: Vector<f32, N>) -> Vector<f32, N> {
        (values - Vector::new(self.mean)) * Vector::new(self.scale) + Vector::new(self.shift)
    }
}
