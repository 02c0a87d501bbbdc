//! From the products of points to patches of pixels: down first, and then across.

use std::mem::MaybeUninit;

use super::{
    PATCH, Winograd,
    lanes::{Pieces, lanes, lanes_mut, pieces},
    points::Windows,
};
use crate::kernel::{conv::product::Task, rows::Value};

impl Winograd {
    /// Elements that stand between products and pixels: sums down, pixels at even places and at odd ones of a row of
    /// patches, and all pixels.
    pub(super) fn elements_behind_products(&self) -> usize {
        let [sums, phases, pixels] = [4, 1, 2];
        (sums + phases + pixels) * PATCH * self.blocks.images * self.blocks.height * self.blocks.patches[1]
    }

    /// Writes the pixels of a row of the target: its products begin with `products`, and those of the other points
    /// follow `apart` from each other.
    #[inline(always)]
    pub(super) fn put_patches<T: Value>(
        &self,
        windows: &Windows,
        row: usize,
        (products, apart): (&[f32], usize),
        task: &mut Task<'_, T>,
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

    /// Writes pixels to their places: those of the upper rows of patches, and of the lower ones.
    #[inline(always)]
    fn put_pixels<T: Value>(
        &self,
        windows: &Windows,
        row: usize,
        pixels: [&[f32]; PATCH],
        task: &mut Task<'_, T>,
    ) {
        let [height, width] = self.product.target;
        let pitch = PATCH * self.blocks.patches[1];
        for (image, target) in task.images.iter_mut().enumerate() {
            let target = &mut target[row * height * width..][..height * width];
            let lines = target[PATCH * windows.first_row * width..].chunks_exact_mut(width.max(1));
            for (index, to) in lines.take(PATCH * windows.height).enumerate() {
                let at = (image * windows.height + index / PATCH) * pitch;
                pieces(width, Rounded { from: &pixels[index % PATCH][at..][..width], to });
            }
        }
    }
}

/// What four points make of two pixels each: of all the first ones, and behind them of all the second ones.
///
/// Each loop has few slices: with more of them the compiler does not make vectors.
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

/// Rounds a row of pixels.
struct Rounded<'a, T> {
    from: &'a [f32],
    to: &'a mut [MaybeUninit<T>],
}

impl<T: Value> Pieces for Rounded<'_, T> {
    #[inline(always)]
    fn piece<const COUNT: usize>(&mut self, at: usize) {
        let to = lanes_mut::<_, COUNT>(self.to, at);
        to.iter_mut().zip(lanes::<_, COUNT>(self.from, at)).for_each(|(to, pixel)| {
            to.write(T::rounded(*pixel));
        });
    }
}
