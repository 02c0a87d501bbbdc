//! Affine transforms of images, with the arithmetic of torchvision on tensors.

use super::image_shape::ImageShape;

/// For a place in the result, the place in the image: `x' = m0 x + m1 y + m2`, `y' = m3 x + m4 y + m5`, in pixels from the
/// middle of the image.
pub(super) type InverseMatrix = [f64; 6];

/// The matrix that turns an image counterclockwise about its middle.
pub(super) fn rotation(degrees: f64) -> InverseMatrix {
    let (sin, cos) = degrees.to_radians().sin_cos();
    [cos, -sin, 0.0, sin, cos, 0.0]
}

/// The matrix that moves an image to the right and down.
pub(super) fn translation(right: f64, down: f64) -> InverseMatrix {
    [1.0, 0.0, -right, 0.0, 1.0, -down]
}

/// The matrix that shears an image about its corner, as RandAugment does: `x` pixels to the left for each row, and `y`
/// pixels up for each column.
pub(super) fn shear(x: f64, y: f64, shape: ImageShape) -> InverseMatrix {
    let (half_width, half_height) = (shape.width as f64 * 0.5, shape.height as f64 * 0.5);
    [1.0, x, x * half_height, y, 1.0, y * half_width]
}

/// An image under a transform, by bilinear interpolation. What comes from outside of the image is black.
///
/// The coordinates are those of torchvision's `affine` with `InterpolationMode.BILINEAR`, in 32 bits.
pub(super) fn affine(pixels: &[u8], shape: ImageShape, matrix: InverseMatrix) -> Vec<u8> {
    let ImageShape { height, width, .. } = shape;
    let matrix = matrix.map(|element| element as f32);
    let from_middle = |place: usize, side: usize| place as f32 + 0.5 - side as f32 * 0.5;
    let area = height * width;
    let mut result = vec![0; pixels.len()];
    for place in 0..area {
        let (x, y) = (from_middle(place % width, width), from_middle(place / width, height));
        let at = |[a, b, c]: [f32; 3], side: usize| x * a + y * b + c + side as f32 * 0.5 - 0.5;
        let [a, b, c, d, e, f] = matrix;
        let sample = BilinearSample::at(at([a, b, c], width), at([d, e, f], height), shape);
        for (from, to) in pixels.chunks_exact(area).zip(result.chunks_exact_mut(area)) {
            to[place] = sample.of(from);
        }
    }
    result
}

/// Up to four neighbouring pixels with their weights.
struct BilinearSample {
    places: [usize; 4],
    /// 0 for a neighbour outside of the image.
    weights: [f32; 4],
}

impl BilinearSample {
    fn at(x: f32, y: f32, shape: ImageShape) -> Self {
        let (left, top) = (x.floor(), y.floor());
        let (right_share, bottom_share) = (x - left, y - top);
        let mut sample = Self { places: [0; 4], weights: [0.0; 4] };
        for (index, (place, weight)) in sample.places.iter_mut().zip(&mut sample.weights).enumerate() {
            let (is_right, is_bottom) = (index % 2 == 1, index / 2 == 1);
            let column = left + f32::from(u8::from(is_right));
            let row = top + f32::from(u8::from(is_bottom));
            let is_inside =
                (0.0..shape.width as f32).contains(&column) && (0.0..shape.height as f32).contains(&row);
            if is_inside {
                *place = row as usize * shape.width + column as usize;
                let across = if is_right { right_share } else { 1.0 - right_share };
                let down = if is_bottom { bottom_share } else { 1.0 - bottom_share };
                *weight = across * down;
            }
        }
        sample
    }

    fn of(&self, channel: &[u8]) -> u8 {
        let terms = self.places.iter().zip(&self.weights);
        terms.map(|(&place, weight)| f32::from(channel[place]) * weight).sum::<f32>().round_ties_even() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: ImageShape = ImageShape { channels: 1, height: 3, width: 3 };
    const PIXELS: [u8; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];

    #[test]
    fn a_quarter_turn_is_counterclockwise() {
        assert_eq!(affine(&PIXELS, SHAPE, rotation(90.0)), [3, 6, 9, 2, 5, 8, 1, 4, 7]);
        assert_eq!(affine(&PIXELS, SHAPE, rotation(0.0)), PIXELS);
    }

    #[test]
    fn a_translation_leaves_black_behind() {
        assert_eq!(affine(&PIXELS, SHAPE, translation(1.0, 0.0)), [0, 1, 2, 0, 4, 5, 0, 7, 8]);
        assert_eq!(affine(&PIXELS, SHAPE, translation(0.0, -2.0)), [7, 8, 9, 0, 0, 0, 0, 0, 0]);
    }
}
