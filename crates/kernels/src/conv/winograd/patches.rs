//! Transforms products of points to patches of pixels: first down, then across.

use super::{
    blocking::{PATCH, Winograd},
    points::Windows,
};
use crate::{conv::product::ConvTask, stored_float::StoredFloat};

impl Winograd {
    /// Writes the pixels of a row of the target. `products` begins with those of the first point; the products of the next
    /// points follow, `apart` elements from each other.
    #[inline(always)]
    pub(super) fn put_patches<T: StoredFloat>(
        &self,
        windows: &Windows,
        row: usize,
        products: &[f32],
        apart: usize,
        task: &mut ConvTask<'_, T>,
        between: &mut [f32],
    ) {
        let count = windows.images * windows.height * self.blocks.patches[1];
        let (sums, rest) = between.split_at_mut(4 * PATCH * count);
        let (phases, pixels) = rest.split_at_mut(PATCH * count);
        for (across, sums) in sums.chunks_exact_mut((PATCH * count).max(1)).enumerate() {
            let point = |down: usize| &products[(4 * down + across) * apart..][..count];
            of_points([point(0), point(1), point(2), point(3)], sums);
        }
        let (above, below) = pixels.split_at_mut(PATCH * count);
        for (line, pixels) in [&mut *above, &mut *below].into_iter().enumerate() {
            let sum = |across: usize| &sums[(PATCH * across + line) * count..][..count];
            of_points([sum(0), sum(1), sum(2), sum(3)], phases);
            let (even, odd) = phases.split_at(count);
            for ((pair, even), odd) in pixels.as_chunks_mut::<PATCH>().0.iter_mut().zip(even).zip(odd) {
                *pair = [*even, *odd];
            }
        }
        self.put_pixels(windows, row, [above, below], task);
    }

    /// Writes pixels to the target: those of the upper rows of patches, and those of the lower rows.
    #[inline(always)]
    fn put_pixels<T: StoredFloat>(
        &self,
        windows: &Windows,
        row: usize,
        pixels: [&[f32]; PATCH],
        task: &mut ConvTask<'_, T>,
    ) {
        let [height, width] = self.product.target;
        let pitch = PATCH * self.blocks.patches[1];
        let first = PATCH * windows.first_row;
        for image in 0..task.images.len() {
            for (index, line) in (first..height).take(PATCH * windows.height).enumerate() {
                let at = (image * windows.height + index / PATCH) * pitch;
                task.write(image, row, line * width, &pixels[index % PATCH][at..][..width]);
            }
        }
    }
}

/// Computes two pixels from four points each: all first pixels, and behind them all second pixels.
///
/// Each loop has few slices: the compiler does not vectorise loops over more.
#[inline(always)]
fn of_points([first, second, third, fourth]: [&[f32]; 4], to: &mut [f32]) {
    let (one, other) = to.split_at_mut(first.len());
    for (((one, first), second), third) in one.iter_mut().zip(first).zip(second).zip(third) {
        *one = first + (second + third);
    }
    for (((other, second), third), fourth) in other.iter_mut().zip(second).zip(third).zip(fourth) {
        *other = (second - third) - fourth;
    }
}
