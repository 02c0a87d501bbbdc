//! Batch normalisation with its neighbours in a residual network: the residual addition and the ReLU.
//!
//! Letters: B batch, C channels, S = H·W positions, n = B·S values of a channel, P ≤ 1024 parts of a channel. A channel has
//! more than one part where it has 4096 values or more, and there are less than 1024 channels.
//!
//! Images lie channels-first or channels-last in memory. Outputs have the order of the input that was normalised, and other
//! images are copied if they have another order.

mod apply;
mod backward;
mod channel_parts;
mod channels_last;
mod moments;
mod rectify;

use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::tensor::contiguous;

pub use apply::{Addend, normalise};
pub use backward::{NormGradients, NormInput, NormSums, input_gradient, normalise_backward, sums};
pub use moments::{Moments, moments};
pub use rectify::rectify_backward;

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
    fn argument(self) -> AffineVectorsLaunch<R> {
        let [mean, scale, shift] =
            [self.mean, self.scale, self.shift].map(|vector| contiguous(vector).into_buffer_arg());
        AffineVectorsLaunch::new(mean, scale, shift)
    }
}

/// [`Affine`] on the device.
#[derive(CubeType, CubeLaunch)]
struct AffineVectors {
    mean: Box<[f32]>,
    scale: Box<[f32]>,
    shift: Box<[f32]>,
}

#[cube]
impl AffineVectors {
    fn of_channel(&self, channel: usize) -> ChannelAffine {
        ChannelAffine { mean: self.mean[channel], scale: self.scale[channel], shift: self.shift[channel] }
    }
}

/// [`Affine`] for one channel.
#[derive(CubeType, Clone, Copy)]
struct ChannelAffine {
    mean: f32,
    scale: f32,
    shift: f32,
}

#[cube]
impl ChannelAffine {
    fn normed<N: Size>(&self, values: Vector<f32, N>) -> Vector<f32, N> {
        (values - Vector::new(self.mean)) * Vector::new(self.scale) + Vector::new(self.shift)
    }
}
