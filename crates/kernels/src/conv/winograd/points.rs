//! Transforms pixels to points: down and then across, for some windows at a time, which stay in registers.

use std::ops::Range;

use oomph_core::{Account, charge};

use super::{
    blocking::{LANES, PATCH, Winograd},
    blocks::Windows,
};
use crate::{
    conv::pieces::{Pieces, difference, lanes, lanes_mut, pieces, sum, widened},
    custom_op::split,
    stored_float::StoredFloat,
};

impl Winograd {
    /// Computes the points of the windows of some channels: a row of `points` for each channel and point.
    #[inline(always)]
    pub(super) fn make_points<S: StoredFloat>(
        &self,
        windows: &Windows,
        channels: Range<usize>,
        source: &[S],
        points: &mut [f32],
        between: &mut [f32],
    ) {
        let (apart, count) = (self.point(self.at_once), self.blocks.patches_of(windows));
        let of_line = PATCH * self.line();
        let [lines, phases] = split(between, [4 * of_line, 4 * self.phases()]);
        // Beyond the image are zeros.
        lines.fill(0.0);
        let edges = charge(Account::Host, || Edges::of(count, self.line(), self.blocks.patches[1]));
        for (index, channel) in channels.enumerate() {
            self.copy_lines(windows, channel, source, lines);
            let of_lines = phases.chunks_exact_mut(self.phases());
            for (line, phases) in lines.chunks_exact(of_line).zip(of_lines) {
                let (even, odd) = phases.split_at_mut(self.phases() / PATCH);
                let phases = even[1..].iter_mut().zip(&mut odd[1..]);
                for ((even, odd), pair) in phases.zip(line.as_chunks::<PATCH>().0) {
                    [*even, *odd] = *pair;
                }
            }
            for at in (0..count).step_by(LANES) {
                let points = &mut points[index * self.stride() + at..];
                put_points(phases, self.phases() / PATCH, at, &edges, points, apart);
            }
        }
    }

    /// Copies what the windows read of a channel: of each window's four lines, both pixels of its patch.
    #[inline(always)]
    fn copy_lines<S: StoredFloat>(&self, windows: &Windows, channel: usize, source: &[S], lines: &mut [f32]) {
        let [height, width] = self.product.source;
        let (pitch, of_line) = (PATCH * self.blocks.patches[1], PATCH * self.line());
        for image in 0..windows.images {
            let plane = (windows.first_image + image) * self.product.channels + channel;
            let plane = &source[plane * height * width..][..height * width];
            for patch in 0..windows.height {
                let first = PATCH * (windows.first_row + patch);
                let at = (image * windows.height + patch) * pitch;
                for (row, to) in lines.chunks_exact_mut(of_line).enumerate() {
                    // The window begins a row above its patch.
                    if let Some(y) = (first + row).checked_sub(1).filter(|y| *y < height) {
                        let (from, to) = (&plane[y * width..], &mut to[at..]);
                        pieces(width, Widened { from, to });
                    }
                }
            }
        }
    }
}

struct Widened<'a, S> {
    from: &'a [S],
    to: &'a mut [f32],
}

impl<S: StoredFloat> Pieces for Widened<'_, S> {
    #[inline(always)]
    fn piece<const COUNT: usize>(&mut self, at: usize) {
        *lanes_mut::<_, COUNT>(self.to, at) = widened(self.from, at);
    }
}

/// All bits for each patch that has a neighbour left of it in the image, and for each with one right of it; none for the others.
struct Edges([Vec<u32>; 2]);

impl Edges {
    /// The neighbours of `count` patches, of which `width` make a row, and of none behind, up to `length`.
    fn of(count: usize, length: usize, width: usize) -> Self {
        let edge = |at: usize| {
            let has = |patch: usize| if patch < count && !patch.is_multiple_of(width) { u32::MAX } else { 0 };
            (0..length).map(|patch| has(patch + at)).collect()
        };
        Self([edge(0), edge(1)])
    }
}

/// Computes the points of some windows. `phases` has for each line the left pixels of patches, and `phase` elements further their right
/// ones, with one element before.
#[inline(always)]
fn put_points(
    phases: &[f32],
    phase: usize,
    at: usize,
    Edges([left, right]): &Edges,
    points: &mut [f32],
    apart: usize,
) {
    let pixels = |row: usize, odd: usize, shift: usize| -> &[f32; LANES] {
        lanes(phases, (PATCH * row + odd) * phase + at + shift)
    };
    let mut down = [[[0.0; LANES]; 4]; 4];
    for (down, [odd, shift]) in down.iter_mut().zip([[1, 0], [0, 1], [1, 1], [0, 2]]) {
        *down = window(
            pixels(0, odd, shift),
            pixels(1, odd, shift),
            pixels(2, odd, shift),
            pixels(3, odd, shift),
        );
    }
    let [first, second, third, fourth] = &mut down;
    for row in &mut *first {
        *row = masked(row, lanes(left, at));
    }
    for row in &mut *fourth {
        *row = masked(row, lanes(right, at));
    }
    for (row, (((first, second), third), fourth)) in
        first.iter().zip(second).zip(third).zip(fourth).enumerate()
    {
        let made = window(first, second, third, fourth);
        for (column, made) in made.iter().enumerate() {
            *lanes_mut(points, (4 * row + column) * apart) = *made;
        }
    }
}

/// The points of four rows of pixels.
#[inline(always)]
pub(super) fn window<const COUNT: usize>(
    first: &[f32; COUNT],
    second: &[f32; COUNT],
    third: &[f32; COUNT],
    fourth: &[f32; COUNT],
) -> [[f32; COUNT]; 4] {
    [difference(first, third), sum(second, third), difference(third, second), difference(second, fourth)]
}

/// The bits of numbers that an edge has.
#[inline(always)]
fn masked(numbers: &[f32; LANES], edge: &[u32; LANES]) -> [f32; LANES] {
    let mut made = *numbers;
    for (number, edge) in made.iter_mut().zip(edge) {
        *number = f32::from_bits(number.to_bits() & edge);
    }
    made
}
