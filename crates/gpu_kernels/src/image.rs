//! The order of an image's memory.

use burn_cubecl::{CubeRuntime, ops::permute, tensor::CubeTensor};

use crate::tensor::contiguous;

/// How the elements of an image `[B, C, H, W]` follow one another in memory. A plan has the same rules (`oomph-plan`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageOrder {
    /// `[B, C, H, W]`: the pixels of a channel lie together.
    ChannelsFirst,
    /// `[B, H, W, C]`: the channels of a pixel lie together, as convolutions read and write them.
    ChannelsLast,
}

impl ImageOrder {
    /// The order of an image.
    pub(crate) fn of<R: CubeRuntime>(image: &CubeTensor<R>) -> Self {
        let is_last = image.meta.shape()[1] > 1 && image.meta.strides()[1] == 1 && !image.is_contiguous();
        if is_last { Self::ChannelsLast } else { Self::ChannelsFirst }
    }

    /// The image's memory as a contiguous tensor of this order. Images of another order, and those with padded rows, are
    /// copied, in one launch.
    pub(crate) fn memory<R: CubeRuntime>(self, image: CubeTensor<R>) -> CubeTensor<R> {
        contiguous(match self {
            Self::ChannelsFirst => image,
            Self::ChannelsLast => permute(image, &[0, 2, 3, 1]),
        })
    }

    /// The image `[B, C, H, W]` whose memory has this order.
    pub(crate) fn image<R: CubeRuntime>(self, memory: CubeTensor<R>) -> CubeTensor<R> {
        match self {
            Self::ChannelsFirst => memory,
            Self::ChannelsLast => permute(memory, &[0, 3, 1, 2]),
        }
    }
}
