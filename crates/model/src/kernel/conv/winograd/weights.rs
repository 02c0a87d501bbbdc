use std::ops::Range;

use oomph_core::{Account, charge};

use super::{
    POINTS, TAPS, Winograd,
    lanes::{difference, lanes, lanes_mut, sum},
};
use crate::kernel::{interleave::interleave, room::Part, rows::Value, vector::Loops};

/// Rows that are done at once: at least as many as a tile has.
const ROWS: usize = 8;

/// Channels that are done at once.
const CHANNELS: usize = 16;

/// What some rows have for one element of a kernel or of its points.
type Rows = [f32; ROWS];

/// Makes points of the kernels of some rows and channels: at most a tile's rows.
pub(super) struct Packing<'a, E> {
    pub(super) winograd: &'a Winograd,
    pub(super) weights: &'a [E],
    pub(super) channels: Range<usize>,
    pub(super) rows: Range<usize>,
    /// A tile of each.
    pub(super) points: Vec<Part<'a>>,
}

impl<E: Value> Loops for Packing<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { winograd, weights, channels, rows, points } = self;
        let [of_row, of_channel] = winograd.product.weights;
        let of_tile = winograd.tile.rows;
        let mut points: Vec<&mut [f32]> =
            charge(Account::Host, || points.into_iter().map(Part::zeroed).collect());
        // Rows that there are not stay zeros.
        let mut kernels = [0.0; CHANNELS * TAPS * ROWS];
        for first in channels.clone().step_by(CHANNELS) {
            let count = CHANNELS.min(channels.end - first);
            if of_channel == TAPS {
                // What a row has for all channels lies side by side.
                let row = |row: usize| &weights[(rows.start + row) * of_row + first * TAPS..][..count * TAPS];
                interleave(rows.len(), row, 0..count * TAPS, &mut kernels, ROWS);
            } else {
                for (index, kernels) in kernels.chunks_exact_mut(TAPS * ROWS).take(count).enumerate() {
                    let row = |row: usize| {
                        &weights[(rows.start + row) * of_row + (first + index) * of_channel..][..TAPS]
                    };
                    interleave(rows.len(), row, 0..TAPS, kernels, ROWS);
                }
            }
            for (index, kernel) in kernels.chunks_exact(TAPS * ROWS).take(count).enumerate() {
                let to = (first - channels.start + index) * of_tile;
                let made = match winograd.turned {
                    false => of_kernel(|tap| lanes(kernel, tap * ROWS)),
                    true => of_kernel(|tap| lanes(kernel, (TAPS - 1 - tap) * ROWS)),
                };
                for (points, made) in points.iter_mut().zip(&made) {
                    match of_tile {
                        ROWS => *lanes_mut(points, to) = *made,
                        _ => points[to..][..of_tile].copy_from_slice(&made[..of_tile]),
                    }
                }
            }
        }
    }
}

/// The points of kernels: of their rows and then of their columns.
#[inline(always)]
fn of_kernel<'a>(tap: impl Fn(usize) -> &'a Rows) -> [Rows; POINTS] {
    let mut across = [[[0.0; ROWS]; 4]; 3];
    for (row, across) in across.iter_mut().enumerate() {
        *across = of_three(tap(3 * row), tap(3 * row + 1), tap(3 * row + 2));
    }
    let mut made = [[0.0; ROWS]; POINTS];
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
fn of_three(first: &Rows, second: &Rows, third: &Rows) -> [Rows; 4] {
    let (mut ends, mut middle) = (sum(first, third), *second);
    ends.iter_mut().chain(&mut middle).for_each(|number| *number *= 0.5);
    [*first, sum(&ends, &middle), difference(&ends, &middle), *third]
}
