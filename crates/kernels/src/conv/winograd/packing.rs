use std::ops::Range;

use oomph_core::{Account, charge};

use super::blocking::{POINTS, TAPS, Winograd};
use crate::{
    conv::pieces::{difference, lanes, sum},
    interleave::interleave,
    simd::SimdLoops,
    stored_float::StoredFloat,
    uninit::{Appended, UninitSlice},
};

/// Rows that are transformed at once: at least those of a tile.
const ROWS: usize = 8;

/// Channels that are transformed at once.
const CHANNELS: usize = 16;

/// Channels whose points are written together: whole lines of the cache. Those of all points are a power of two apart, and evict each other
/// before the next channel comes.
const TOGETHER: usize = 4;

/// Computes the points of the kernels of some channels, for at most a tile's rows.
pub(super) struct WinogradPacking<'a, E> {
    pub(super) winograd: &'a Winograd,
    pub(super) weights: &'a [E],
    pub(super) channels: Range<usize>,
    pub(super) rows: Range<usize>,
    /// A tile for each point.
    pub(super) points: Vec<UninitSlice<'a>>,
}

impl<E: StoredFloat> SimdLoops for WinogradPacking<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { winograd, weights, channels, rows, points } = self;
        let [of_row, of_channel] = winograd.product.weights;
        let weights = &weights[(winograd.first_row + rows.start) * of_row..];
        let of_tile = winograd.tile.rows;
        let mut points: Vec<Appended<'_>> =
            charge(Account::Host, || points.into_iter().map(UninitSlice::appended).collect());
        // Rows beyond the last stay zeros.
        let mut kernels = [0.0; CHANNELS * TAPS * ROWS];
        for first in channels.clone().step_by(CHANNELS) {
            let count = CHANNELS.min(channels.end - first);
            if of_channel == TAPS {
                // The kernels of a row are contiguous over channels.
                let row = |row: usize| &weights[row * of_row + first * TAPS..][..count * TAPS];
                interleave(rows.len(), row, 0..count * TAPS, &mut kernels, ROWS);
            } else {
                for (index, kernels) in kernels.chunks_exact_mut(TAPS * ROWS).take(count).enumerate() {
                    let row = |row: usize| &weights[row * of_row + (first + index) * of_channel..][..TAPS];
                    interleave(rows.len(), row, 0..TAPS, kernels, ROWS);
                }
            }
            for kernels in kernels[..count * TAPS * ROWS].chunks(TOGETHER * TAPS * ROWS) {
                let mut made = [[[0.0; ROWS]; POINTS]; TOGETHER];
                let kernels = kernels.chunks_exact(TAPS * ROWS);
                let here = kernels.len();
                for (made, kernel) in made.iter_mut().zip(kernels) {
                    *made = match winograd.turned {
                        false => kernel_points::<ROWS>(|tap| lanes(kernel, tap * ROWS)),
                        true => kernel_points::<ROWS>(|tap| lanes(kernel, (TAPS - 1 - tap) * ROWS)),
                    };
                }
                for (point, points) in points.iter_mut().enumerate() {
                    for made in &made[..here] {
                        match of_tile {
                            ROWS => points.append(&made[point]),
                            _ => points.append(&made[point][..of_tile]),
                        }
                    }
                }
            }
        }
        points.iter_mut().for_each(|points| _ = points.written());
    }
}

/// The points of kernels: across and then down. `tap` gives an element of all of them.
#[inline(always)]
pub(in crate::conv) fn kernel_points<'a, const COUNT: usize>(
    tap: impl Fn(usize) -> &'a [f32; COUNT],
) -> [[f32; COUNT]; POINTS] {
    let mut across = [[[0.0; COUNT]; 4]; 3];
    for (row, across) in across.iter_mut().enumerate() {
        *across = of_three(tap(3 * row), tap(3 * row + 1), tap(3 * row + 2));
    }
    let mut made = [[0.0; COUNT]; POINTS];
    for column in 0..4 {
        let down = of_three(&across[0][column], &across[1][column], &across[2][column]);
        for (row, down) in down.into_iter().enumerate() {
            made[4 * row + column] = down;
        }
    }
    made
}

/// The points of three elements.
#[inline(always)]
fn of_three<const COUNT: usize>(
    first: &[f32; COUNT],
    second: &[f32; COUNT],
    third: &[f32; COUNT],
) -> [[f32; COUNT]; 4] {
    let (mut ends, mut middle) = (sum(first, third), *second);
    ends.iter_mut().chain(&mut middle).for_each(|number| *number *= 0.5);
    [*first, sum(&ends, &middle), difference(&ends, &middle), *third]
}
