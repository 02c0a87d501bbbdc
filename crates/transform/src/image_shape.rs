use oomph_core::InputSpec;
use serde::{Deserialize, Serialize};

/// The size of an image. Pixels are ordered by channel, then by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageShape {
    /// Number of channels.
    pub channels: usize,
    /// Number of rows.
    pub height: usize,
    /// Number of columns.
    pub width: usize,
}

impl ImageShape {
    /// Number of values of one image.
    pub const fn elements(self) -> usize {
        self.channels * self.height * self.width
    }
}

impl From<ImageShape> for InputSpec {
    fn from(ImageShape { channels, height, width }: ImageShape) -> Self {
        Self::Image { channels, height, width }
    }
}
