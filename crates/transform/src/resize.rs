//! Resizing, with the arithmetic of Pillow.

use oomph_core::simd::{SimdLoops, vectorised};
use serde::{Deserialize, Serialize};

use super::{
    image_shape::ImageShape,
    view::{RGB, View, Window},
};

/// The filter that resizes an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resize {
    /// A triangle as wide as the distance of the new pixels: bilinear, and an average where the image shrinks.
    #[default]
    Bilinear,
    /// The nearest pixel.
    Nearest,
}

/// How an image of another shape is brought to the size of the inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// Both sides are resized, each by its own factor.
    #[default]
    Stretch,
    /// The image keeps its ratio: it is resized until it just covers the size, and its middle is cropped. For square sizes
    /// these are torchvision's `Resize` of the short side and `CenterCrop`.
    Crop,
}

/// The pixels of `view` in the size of `shape`, by channel and row.
pub fn fitted(view: View<'_>, shape: ImageShape, resize: Resize, fit: Fit) -> Vec<u8> {
    let (ImageShape { height, width, .. }, from) = (shape, view.shape());
    if (from.height, from.width) == (height, width) {
        return view.to_planar();
    }
    match fit {
        Fit::Stretch => resized(view, height, width, resize),
        Fit::Crop => {
            let (tall, wide) = covering(from, height, width);
            let cover = resized(view, tall, wide, resize);
            let cover_shape = ImageShape { height: tall, width: wide, ..from };
            let window = Window { top: middle(tall - height), left: middle(wide - width), height, width };
            View::planar(&cover, cover_shape).window(window).to_planar()
        }
    }
}

/// The smallest height and width that have the ratio of `from` and cover `height` and `width`, as torchvision rounds them.
fn covering(from: ImageShape, height: usize, width: usize) -> (usize, usize) {
    let (across, down) = (from.width * height, from.height * width);
    match across >= down {
        true => (height, (across / from.height).max(width)),
        false => ((down / from.width).max(height), width),
    }
}

/// Half of the pixels to spare, rounded to even as Python's `round` does.
fn middle(spare: usize) -> usize {
    let half = spare / 2;
    half + usize::from(spare % 2 == 1 && half % 2 == 1)
}

/// The pixels of `view`, resized to `height` and `width`, by channel and row.
///
/// Bilinear values equal those of Pillow's `Image.resize`: a pass along rows, then one along columns, in fixed point with
/// 22 fractional bits and rounding after each pass.
pub(super) fn resized(view: View<'_>, height: usize, width: usize, resize: Resize) -> Vec<u8> {
    let from = view.shape();
    let (rows, columns) = match resize {
        Resize::Bilinear => (triangles(from.height, height), triangles(from.width, width)),
        Resize::Nearest => (nearest(from.height, height), nearest(from.width, width)),
    };
    let mut resized = vec![0; from.channels * height * width];
    vectorised(Resizing { view, rows: &rows, columns: &columns, resized: &mut resized });
    resized
}

/// An image that is resized.
struct Resizing<'a> {
    view: View<'a>,
    rows: &'a [Taps],
    columns: &'a [Taps],
    /// By channel and row.
    resized: &'a mut [u8],
}

impl SimdLoops for Resizing<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        if self.view.interleaved_row(0).is_some() { self.colours() } else { self.channels() }
    }
}

impl Resizing<'_> {
    /// Resizes one channel after another.
    #[inline(always)]
    fn channels(self) {
        let Self { view, rows, columns, resized } = self;
        let from = view.shape();
        let mut narrowed = vec![0; from.height * columns.len()];
        let mut row = Vec::with_capacity(from.width);
        for (channel, resized) in resized.chunks_exact_mut((rows.len() * columns.len()).max(1)).enumerate() {
            for (y, narrowed) in narrowed.chunks_exact_mut(columns.len()).enumerate() {
                row.clear();
                row.extend(view.row(channel, y));
                for (pixel, taps) in narrowed.iter_mut().zip(columns) {
                    let sum = row[taps.first..].iter().zip(&taps.weights);
                    *pixel = rounded(sum.map(|(&pixel, weight)| i32::from(pixel) * weight).sum());
                }
            }
            flatten(&narrowed, rows, columns.len(), |y, row| {
                resized[y * columns.len()..][..columns.len()].copy_from_slice(row);
            });
        }
    }

    /// Resizes the three channels of a pixel at once.
    #[inline(always)]
    fn colours(self) {
        /// Bytes of a vector: the channels of a pixel, and one behind them that nobody reads.
        const BYTES: usize = RGB + 1;
        let Self { view, rows, columns, resized } = self;
        let (from, width) = (view.shape(), columns.len());
        let mut padded = vec![0; RGB * from.width + 1];
        let mut narrowed = vec![0; from.height * width * BYTES];
        for (y, narrowed) in narrowed.chunks_exact_mut((width * BYTES).max(1)).enumerate() {
            // All rows are like the first.
            let Some(row) = view.interleaved_row(y) else { break };
            padded[..row.len()].copy_from_slice(row);
            for (to, taps) in narrowed.as_chunks_mut::<BYTES>().0.iter_mut().zip(columns) {
                let mut sums = [0; BYTES];
                for (place, weight) in (taps.first..).zip(&taps.weights) {
                    // A pixel of the row, which has a byte behind it.
                    let Some(pixel) = padded[RGB * place..].first_chunk::<BYTES>() else { break };
                    for channel in 0..BYTES {
                        sums[channel] += i32::from(pixel[channel]) * weight;
                    }
                }
                *to = sums.map(rounded);
            }
        }
        flatten(&narrowed, rows, width * BYTES, |y, row| {
            for (channel, resized) in resized.chunks_exact_mut((rows.len() * width).max(1)).enumerate() {
                let pixels = row.as_chunks::<BYTES>().0;
                let to = &mut resized[y * width..][..width];
                to.iter_mut().zip(pixels).for_each(|(to, pixel)| *to = pixel[channel]);
            }
        });
    }
}

/// The pass along columns, for all `width` values of a new row at once. `put` takes each row.
#[inline(always)]
fn flatten(narrowed: &[u8], rows: &[Taps], width: usize, mut put: impl FnMut(usize, &[u8])) {
    let mut sums = vec![0; width];
    let mut made = vec![0; width];
    for (y, taps) in rows.iter().enumerate() {
        sums.fill(0);
        for (row, weight) in narrowed[taps.first * width..].chunks_exact(width).zip(&taps.weights) {
            sums.iter_mut().zip(row).for_each(|(sum, &pixel)| *sum += i32::from(pixel) * weight);
        }
        made.iter_mut().zip(&sums).for_each(|(pixel, &sum)| *pixel = rounded(sum));
        put(y, &made);
    }
}

/// Fractional bits of a weight.
const FRACTION: u32 = 22;

/// The pixels along one side that make a new pixel: those from `first` on, by their weights in fixed point.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

/// The weights of the triangle filter (`precompute_coeffs` of Pillow's `Resample.c`).
fn triangles(from: usize, to: usize) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    let support = scale.max(1.0);
    let taps = |index: usize| {
        let center = (index as f64 + 0.5) * scale;
        let first = (center - support + 0.5).max(0.0) as usize;
        let end = ((center + support + 0.5) as usize).min(from);
        let weight = |place: usize| (1.0 - ((place as f64 - center + 0.5) / support).abs()).max(0.0);
        let weights: Vec<f64> = (first..end).map(weight).collect();
        let total: f64 = weights.iter().sum();
        let fixed = |weight: f64| (0.5 + weight / total * f64::from(1 << FRACTION)) as i32;
        Taps { first, weights: weights.into_iter().map(fixed).collect() }
    };
    (0..to).map(taps).collect()
}

fn nearest(from: usize, to: usize) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    // A sum, as Pillow has it: where a middle lies between two pixels, its rounding error decides.
    let middles = std::iter::successors(Some(0.5 * scale), |middle| Some(middle + scale)).take(to);
    let taps = |middle: f64| Taps { first: (middle as usize).min(from - 1), weights: vec![1 << FRACTION] };
    middles.map(taps).collect()
}

/// A sum in fixed point, as a pixel.
fn rounded(sum: i32) -> u8 {
    ((sum + (1 << (FRACTION - 1))) >> FRACTION).clamp(0, 255) as u8
}

#[cfg(test)]
mod tests {
    use oomph_core::{Generator, Key};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_plain_image_stays_plain(
            (height, width, to_height, to_width) in (1usize..20, 1usize..20, 1usize..20, 1usize..20),
            (value, crop, nearest) in (any::<u8>(), any::<bool>(), any::<bool>()),
        ) {
            let shape = ImageShape { channels: 3, height, width };
            let pixels = vec![value; shape.elements()];
            let to = ImageShape { channels: 3, height: to_height, width: to_width };
            let resize = if nearest { Resize::Nearest } else { Resize::Bilinear };
            let fit = if crop { Fit::Crop } else { Fit::Stretch };
            let fitted = fitted(View::planar(&pixels, shape), to, resize, fit);
            prop_assert_eq!(fitted, vec![value; to.elements()]);
        }

        #[test]
        fn the_order_of_the_pixels_in_memory_makes_no_difference(
            (height, width, to_height, to_width) in (1usize..40, 1usize..40, 1usize..40, 1usize..40),
            (seed, nearest) in (any::<u64>(), any::<bool>()),
        ) {
            let shape = ImageShape { channels: RGB, height, width };
            let mut numbers = Generator::at(Key::new(seed));
            let interleaved: Vec<u8> = (0..shape.elements()).map(|_| (numbers.uniform() * 256.0) as u8).collect();
            let view = View::interleaved(&interleaved, shape);
            let planar = view.to_planar();
            let resize = if nearest { Resize::Nearest } else { Resize::Bilinear };
            let of = |view| resized(view, to_height, to_width, resize);
            prop_assert_eq!(of(view), of(View::planar(&planar, shape)));
            // A part of an image, which ends before its row does.
            let window = Window { top: height / 3, left: width / 3, height: height.div_ceil(2), width: width.div_ceil(2) };
            prop_assert_eq!(of(view.window(window)), of(View::planar(&planar, shape).window(window)));
        }
    }

    #[test]
    fn a_crop_keeps_the_ratio() {
        let covering = |height, width, to_height, to_width| {
            covering(ImageShape { channels: 1, height, width }, to_height, to_width)
        };
        assert_eq!(covering(480, 640, 224, 224), (224, 298));
        assert_eq!(covering(640, 480, 224, 224), (298, 224));
        assert_eq!(covering(100, 100, 20, 40), (40, 40));
        assert_eq!(covering(50, 400, 20, 40), (20, 160));
        assert_eq!([0, 1, 2, 3, 4, 5, 7].map(middle), [0, 0, 1, 2, 2, 2, 4]);
    }
}
