//! Transforms pixels to points: first down, which gives rows, then across all these rows at once.

use std::ops::Range;

use super::blocking::{PATCH, Winograd};
use crate::{
    conv::pieces::{Pieces, difference, lanes, lanes_mut, pieces, sum},
    stored_float::StoredFloat,
};

/// The windows of a block of patches.
pub(in crate::conv) struct Windows {
    pub(in crate::conv) first_image: usize,
    pub(in crate::conv) images: usize,
    /// The first row of patches.
    pub(in crate::conv) first_row: usize,
    /// Rows of patches.
    pub(in crate::conv) height: usize,
}

impl Winograd {
    /// Computes the points of the windows of some channels: a row of `points` for each channel and point. `nothing` is a row
    /// of zeros.
    #[inline(always)]
    pub(super) fn make_points<S: StoredFloat>(
        &self,
        windows: &Windows,
        channels: Range<usize>,
        source: &[S],
        nothing: &[S],
        points: &mut [f32],
        between: &mut [f32],
    ) {
        let apart = self.point(self.at_once);
        let count = windows.images * windows.height * self.blocks.patches[1];
        let (lines, phases) = between.split_at_mut(4 * self.together() * self.line());
        for first in channels.clone().step_by(self.together()) {
            let together = first..(first + self.together()).min(channels.end);
            self.cut_down(windows, together.clone(), source, nothing, lines);
            for (channel, lines) in together.zip(lines.chunks_exact(4 * self.line())) {
                let points = &mut points[(channel - channels.start) * self.stride()..];
                for (line, points) in lines.chunks_exact(self.line()).zip(points.chunks_mut(4 * apart)) {
                    cut_across(&line[..PATCH * count], self.blocks.patches[1], points, apart, phases);
                }
            }
        }
    }

    /// Computes the points down of some channels.
    #[inline(always)]
    fn cut_down<S: StoredFloat>(
        &self,
        windows: &Windows,
        channels: Range<usize>,
        source: &[S],
        nothing: &[S],
        lines: &mut [f32],
    ) {
        let [height, width] = self.product.source;
        let pitch = PATCH * self.blocks.patches[1];
        let line = self.line();
        let planes = (windows.first_image..windows.first_image + windows.images).enumerate();
        for (image, plane) in planes {
            let first = plane * self.product.channels + channels.start;
            let planes = source[first * height * width..].chunks_exact((height * width).max(1));
            for (plane, lines) in planes.zip(lines.chunks_exact_mut(4 * line)).take(channels.len()) {
                for patch in 0..windows.height {
                    let first = PATCH * (windows.first_row + patch);
                    // The window begins a row above its patch.
                    let row = |row: usize| match (first + row).checked_sub(1) {
                        Some(y) if y < height => &plane[y * width..][..width],
                        _ => nothing,
                    };
                    let rows = [row(0), row(1), row(2), row(3)];
                    let at = (image * windows.height + patch) * pitch;
                    pieces(width, Down { rows, lines: &mut *lines, line, at });
                    if width < pitch {
                        (0..4).for_each(|down| lines[down * line + at + width] = 0.0);
                    }
                }
            }
        }
    }
}

/// Computes points down from four rows of pixels.
struct Down<'a, S> {
    rows: [&'a [S]; 4],
    lines: &'a mut [f32],
    /// Elements from one point to the next.
    line: usize,
    at: usize,
}

impl<S: StoredFloat> Pieces for Down<'_, S> {
    #[inline(always)]
    fn piece<const COUNT: usize>(&mut self, at: usize) {
        let mut rows = [[0.0; COUNT]; 4];
        for (to, row) in rows.iter_mut().zip(self.rows) {
            to.iter_mut().zip(lanes::<S, COUNT>(row, at)).for_each(|(to, pixel)| *to = pixel.widened());
        }
        let [a, b, c, d] = &rows;
        let mut put = |down: usize, made: [f32; COUNT]| {
            *lanes_mut(self.lines, down * self.line + self.at + at) = made;
        };
        put(0, difference(a, c));
        put(1, sum(b, c));
        put(2, difference(c, b));
        put(3, difference(b, d));
    }
}

/// Computes points across from rows of pixels, one behind the other, with two pixels for each of `width` patches.
///
/// Each loop has few slices: the compiler does not vectorise loops over more.
#[inline(always)]
fn cut_across(line: &[f32], width: usize, points: &mut [f32], apart: usize, phases: &mut [f32]) {
    let pairs = line.as_chunks::<PATCH>().0;
    let count = pairs.len();
    let (even, odd) = phases.split_at_mut(count + 1);
    for ((even, odd), pair) in even.iter_mut().zip(&mut odd[1..]).zip(pairs) {
        [*even, *odd] = *pair;
    }
    let (before, odd) = (&odd[..count], &odd[1..][..count]);
    let (even, behind) = (&even[..count], &even[1..][..count]);
    let place = |across: usize| across * apart..across * apart + count;
    let subtract = |to: &mut [f32], left: &[f32], right: &[f32]| {
        to.iter_mut().zip(left).zip(right).for_each(|((to, left), right)| *to = left - right);
    };
    for ((to, even), odd) in points[place(1)].iter_mut().zip(even).zip(odd) {
        *to = even + odd;
    }
    subtract(&mut points[place(2)], odd, even);
    subtract(&mut points[place(0)], before, odd);
    subtract(&mut points[place(3)], even, behind);
    // The neighbour beyond the end of a row is zero, and not the next row.
    for at in (0..count).step_by(width) {
        points[at] = 0.0 - odd[at];
        points[3 * apart + at + width - 1] = even[at + width - 1];
    }
}
