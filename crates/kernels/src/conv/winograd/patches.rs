//! Transforms products of points to patches of pixels: first down, then across, for some patches at a time, which stay in registers.

use super::{
    blocking::{LANES, PATCH, Winograd},
    blocks::Windows,
};
use crate::{
    conv::{
        pieces::{difference, lanes, lanes_mut, sum},
        product::ConvTask,
    },
    custom_op::split,
    stored_float::StoredFloat,
};

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
        let (line, count) = (self.line(), self.blocks.patches_of(windows));
        let [phases, pixels] = split(between, [2 * PATCH * line, 2 * PATCH * line]);
        for at in (0..count).step_by(LANES) {
            put_phases(&products[at..], apart, &mut phases[at..], line);
        }
        let lines = pixels.chunks_exact_mut(PATCH * line).zip(phases.chunks_exact(PATCH * line));
        for (pixels, phases) in lines {
            let (even, odd) = phases.split_at(line);
            for ((pair, even), odd) in pixels.as_chunks_mut::<PATCH>().0.iter_mut().zip(even).zip(odd) {
                *pair = [*even, *odd];
            }
        }
        let (above, below) = pixels.split_at(PATCH * line);
        put_pixels(windows, row, [above, below], self.product.target, task);
    }
}

/// Writes the pixels of some windows to a row of a target of `height` lines of `width` pixels: those of the upper lines of patches, and those
/// of the lower lines.
#[inline(always)]
pub(in crate::conv) fn put_pixels<T: StoredFloat>(
    windows: &Windows,
    row: usize,
    pixels: [&[f32]; PATCH],
    [height, width]: [usize; 2],
    task: &mut ConvTask<'_, T>,
) {
    let pitch = width.next_multiple_of(PATCH);
    let first = PATCH * windows.first_row;
    for image in 0..windows.images {
        for (index, line) in (first..height).take(PATCH * windows.height).enumerate() {
            let at = (image * windows.height + index / PATCH) * pitch;
            task.write(image, row, line * width, &pixels[index % PATCH][at..][..width]);
        }
    }
}

/// Computes the pixels of some patches: the left ones of the upper line, and `line` elements further the right ones, then those of the lower
/// line.
#[inline(always)]
fn put_phases(products: &[f32], apart: usize, phases: &mut [f32], line: usize) {
    let point = |row: usize, column: usize| -> &[f32; LANES] { lanes(products, (4 * row + column) * apart) };
    let mut down = [[[0.0; LANES]; PATCH]; 4];
    for (column, down) in down.iter_mut().enumerate() {
        *down = pixels(point(0, column), point(1, column), point(2, column), point(3, column));
    }
    let [first, second, third, fourth] = &down;
    for (row, (((first, second), third), fourth)) in
        first.iter().zip(second).zip(third).zip(fourth).enumerate()
    {
        let made = pixels(first, second, third, fourth);
        for (column, made) in made.iter().enumerate() {
            *lanes_mut(phases, (PATCH * row + column) * line) = *made;
        }
    }
}

/// Two pixels of four points each.
#[inline(always)]
fn pixels(
    first: &[f32; LANES],
    second: &[f32; LANES],
    third: &[f32; LANES],
    fourth: &[f32; LANES],
) -> [[f32; LANES]; PATCH] {
    [sum(first, &sum(second, third)), difference(&difference(second, third), fourth)]
}
