use super::Idx;
use crate::transform::ImageShape;

/// The layout of pixels in an IDX file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PixelLayout {
    /// With four dimensions: whether channels come last, or before rows and columns.
    pub(super) channels_last: bool,
    /// Whether columns come before rows.
    pub(super) transpose: bool,
}

/// The size of the images and their pixels by channel, then by row. Pixels in that layout already are not copied.
pub(super) fn planar(images: Idx, layout: PixelLayout) -> (ImageShape, Vec<u8>) {
    let PixelLayout { channels_last, transpose } = layout;
    // The number and the stride in the file of rows, columns and channels.
    let [rows, columns, channels] = match images.dims[1..] {
        [rows, columns, channels] if channels_last => {
            [(rows, columns * channels), (columns, channels), (channels, 1)]
        }
        [channels, rows, columns] => [(rows, columns), (columns, 1), (channels, rows * columns)],
        [rows, columns] => [(rows, columns), (columns, 1), (1, rows * columns)],
        // The parser accepts only three and four dimensions.
        _ => [(0, 0); 3],
    };
    let [(height, down), (width, across)] = if transpose { [columns, rows] } else { [rows, columns] };
    let shape = ImageShape { channels: channels.0, height, width };
    if across == 1 && (shape.channels == 1 || channels.1 == height * width) {
        return (shape, images.values);
    }
    let mut pixels = Vec::with_capacity(images.values.len());
    for image in images.values.chunks_exact(shape.elements().max(1)) {
        for channel in 0..shape.channels {
            for y in 0..height {
                let start = channel * channels.1 + y * down;
                pixels.extend((0..width).map(|x| image[start + x * across]));
            }
        }
    }
    (shape, pixels)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two images of 3 channels, 2 rows and 4 columns, where each pixel encodes its position.
    fn image(number: u8, channel: u8, y: u8, x: u8) -> u8 {
        number * 100 + channel * 30 + y * 10 + x
    }

    fn file(dims: [u8; 4], at: impl Fn(u8, [u8; 3]) -> u8) -> Idx {
        let [count, first, second, third] = dims;
        let mut values = Vec::new();
        for number in 0..count {
            for a in 0..first {
                for b in 0..second {
                    values.extend((0..third).map(|c| at(number, [a, b, c])));
                }
            }
        }
        Idx { dims: dims.map(usize::from).to_vec(), values }
    }

    #[test]
    fn every_layout_gives_the_same_images() {
        let first = |transpose| PixelLayout { channels_last: false, transpose };
        let last = |transpose| PixelLayout { channels_last: true, transpose };
        let plain = file([2, 3, 2, 4], |n, [c, y, x]| image(n, c, y, x));
        let expected = (ImageShape { channels: 3, height: 2, width: 4 }, plain.values.clone());
        assert_eq!(planar(plain, first(false)), expected);
        assert_eq!(planar(file([2, 3, 4, 2], |n, [c, x, y]| image(n, c, y, x)), first(true)), expected);
        assert_eq!(planar(file([2, 2, 4, 3], |n, [y, x, c]| image(n, c, y, x)), last(false)), expected);
        assert_eq!(planar(file([2, 4, 2, 3], |n, [x, y, c]| image(n, c, y, x)), last(true)), expected);
    }

    #[test]
    fn grey_images_have_three_dimensions_and_one_channel() {
        let idx = Idx { dims: vec![1, 2, 3], values: vec![1, 2, 3, 4, 5, 6] };
        let plain = PixelLayout { channels_last: true, transpose: false };
        let shape = ImageShape { channels: 1, height: 2, width: 3 };
        assert_eq!(planar(idx.clone(), plain), (shape, idx.values.clone()));
        let transposed = planar(idx, PixelLayout { transpose: true, ..plain });
        assert_eq!(transposed, (ImageShape { channels: 1, height: 3, width: 2 }, vec![1, 4, 2, 5, 3, 6]));
    }
}
