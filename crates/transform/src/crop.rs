use super::image_shape::ImageShape;

/// Adds a frame of `padding` black pixels, and crops to the original size from row `top` and column `left`.
///
/// `top` and `left` are at most twice `padding`.
pub(super) fn crop(pixels: &[u8], shape: ImageShape, padding: usize, top: usize, left: usize) -> Vec<u8> {
    let ImageShape { height, width, .. } = shape;
    let mut cropped = vec![0; pixels.len()];
    // Row `y` of the result is row `y + top - padding` of the image, where there is one; columns likewise.
    let (rows, from_row) = overlap(height, padding, top);
    let (columns, from_column) = overlap(width, padding, left);
    for (image, cropped) in pixels.chunks_exact(height * width).zip(cropped.chunks_exact_mut(height * width))
    {
        for (row, from) in rows.clone().zip(from_row..) {
            let from = from * width + from_column;
            cropped[row * width..][columns.clone()].copy_from_slice(&image[from..from + columns.len()]);
        }
    }
    cropped
}

/// Along one side: the places of the result that lie on the image, and the place of the first of them in the image.
fn overlap(side: usize, padding: usize, start: usize) -> (std::ops::Range<usize>, usize) {
    let first = padding.saturating_sub(start).min(side);
    let end = (side + padding).saturating_sub(start).min(side).max(first);
    (first..end, start.saturating_sub(padding).min(side))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, pixel by pixel.
    fn plain(pixels: &[u8], shape: ImageShape, padding: usize, top: usize, left: usize) -> Vec<u8> {
        let ImageShape { channels, height, width } = shape;
        let mut cropped = Vec::new();
        for channel in 0..channels {
            for y in 0..height {
                for x in 0..width {
                    let (y, x) = ((y + top).checked_sub(padding), (x + left).checked_sub(padding));
                    cropped.push(match (y, x) {
                        (Some(y), Some(x)) if y < height && x < width => {
                            pixels[(channel * height + y) * width + x]
                        }
                        _ => 0,
                    });
                }
            }
        }
        cropped
    }

    proptest! {
        #[test]
        fn a_crop_is_a_shift_filled_with_black(
            (channels, height, width, padding) in (1usize..4, 1usize..9, 1usize..9, 0usize..12),
            (top, left) in (0.0..1.0, 0.0..1.0),
        ) {
            let shape = ImageShape { channels, height, width };
            let pixels: Vec<_> = (0..shape.elements()).map(|value| value as u8 | 1).collect();
            let place = |share: f64| (share * (2 * padding + 1) as f64) as usize;
            prop_assert_eq!(
                crop(&pixels, shape, padding, place(top), place(left)),
                plain(&pixels, shape, padding, place(top), place(left))
            );
        }
    }
}
