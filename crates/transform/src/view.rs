use super::image_shape::ImageShape;

/// Channels of a colour image.
pub(super) const RGB: usize = 3;

/// The pixels of an image, in whichever order they lie in memory; or a window of an image.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// From the first pixel of the window on.
    bytes: &'a [u8],
    shape: ImageShape,
    channel_stride: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> View<'a> {
    /// Pixels by channel, then by row.
    pub fn planar(bytes: &'a [u8], shape: ImageShape) -> Self {
        let ImageShape { height, width, .. } = shape;
        Self { bytes, shape, channel_stride: height * width, row_stride: width, column_stride: 1 }
    }

    /// Pixels by row, each with all its channels, as decoders write them.
    pub fn interleaved(bytes: &'a [u8], shape: ImageShape) -> Self {
        let ImageShape { channels, width, .. } = shape;
        Self { bytes, shape, channel_stride: 1, row_stride: channels * width, column_stride: channels }
    }

    /// The size of the window.
    pub fn shape(&self) -> ImageShape {
        self.shape
    }

    /// A window of this window, which contains it.
    pub fn window(self, window: Window) -> Self {
        let Window { top, left, height, width } = window;
        let first = top * self.row_stride + left * self.column_stride;
        Self { bytes: &self.bytes[first..], shape: ImageShape { height, width, ..self.shape }, ..self }
    }

    /// The values of one row of one channel, from left to right.
    pub fn row(&self, channel: usize, row: usize) -> impl Iterator<Item = u8> + 'a {
        let first = channel * self.channel_stride + row * self.row_stride;
        self.bytes[first..].iter().step_by(self.column_stride).take(self.shape.width).copied()
    }

    /// The bytes of a row, if its pixels lie side by side, with three channels each.
    pub(super) fn interleaved_row(&self, row: usize) -> Option<&'a [u8]> {
        let strides = [self.shape.channels, self.channel_stride, self.column_stride];
        (strides == [RGB, 1, RGB]).then(|| &self.bytes[row * self.row_stride..][..RGB * self.shape.width])
    }

    /// A copy by channel, then by row.
    pub fn to_planar(self) -> Vec<u8> {
        let mut pixels = Vec::with_capacity(self.shape.elements());
        for channel in 0..self.shape.channels {
            (0..self.shape.height).for_each(|row| pixels.extend(self.row(channel, row)));
        }
        pixels
    }
}

/// A rectangle within an image, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub top: usize,
    pub left: usize,
    pub height: usize,
    pub width: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: ImageShape = ImageShape { channels: 2, height: 2, width: 3 };

    #[test]
    fn both_orders_are_the_same_image() {
        let planar: Vec<u8> = (0..12).collect();
        let interleaved = [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11];
        assert_eq!(View::interleaved(&interleaved, SHAPE).to_planar(), planar);
        assert_eq!(View::planar(&planar, SHAPE).to_planar(), planar);
    }

    #[test]
    fn a_window_of_a_window_is_a_part_of_it() {
        let planar: Vec<u8> = (0..12).collect();
        let outer = Window { top: 0, left: 1, height: 2, width: 2 };
        let inner = Window { top: 1, left: 1, height: 1, width: 1 };
        let view = View::planar(&planar, SHAPE).window(outer);
        assert_eq!(view.to_planar(), [1, 2, 4, 5, 7, 8, 10, 11]);
        assert_eq!(view.window(inner).to_planar(), [5, 11]);
    }
}
