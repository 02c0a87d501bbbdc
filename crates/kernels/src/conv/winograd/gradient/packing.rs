//! Points of channels side by side: of the windows of patches, and of the output's gradient in patches. The pixels of some channels are
//! put side by side first.

use std::ops::Range;

use super::{KernelGradient, PointsOf};
use crate::{
    conv::{
        pieces::{difference, lanes, lanes_mut, sum},
        product::ConvSizes,
        winograd::{
            blocking::PATCH,
            blocks::{Blocks, Windows},
            points::window,
        },
    },
    interleave::interleave,
    simd::SimdLoops,
    stored_float::StoredFloat,
};

/// Channels of the gradient that are transformed at once: at least those of a tile.
pub(super) const ROWS: usize = 8;

/// The most pixels of an image that the windows of a block read.
pub(super) fn most_pixels(blocks: Blocks, ConvSizes { input: [height, width], .. }: ConvSizes) -> usize {
    height.min(PATCH * blocks.height + 2) * width
}

/// Points of some channels to be packed. `pixels` is a workspace.
pub(super) struct Packing<'a, E> {
    pub(super) gradient: &'a KernelGradient,
    pub(super) values: &'a [E],
    pub(super) piece: PointsOf<'a>,
    pub(super) pixels: &'a mut [f32],
}

/// Packs the points of the input's windows, in a panel.
pub(super) struct PackPanel<'a, E>(pub(super) Packing<'a, E>);

/// Packs the points of the output's gradient, in the tiles of a strip.
pub(super) struct PackStrip<'a, E>(pub(super) Packing<'a, E>);

impl<E: StoredFloat> SimdLoops for PackPanel<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        match self.0.gradient.lanes() {
            8 => self.pack::<8>(),
            _ => self.pack::<16>(),
        }
    }
}

impl<E: StoredFloat> PackPanel<'_, E> {
    #[inline(always)]
    fn pack<const LANES: usize>(self) {
        let Packing { gradient, values, piece: PointsOf { windows, index, to }, pixels } = self.0;
        let ConvSizes { channels: [channels, _], input: size, .. } = gradient.sizes;
        let columns = gradient.tile.columns;
        let some = index * columns..channels.min((index + 1) * columns);
        let [of_point, _] = gradient.of_point();
        let plane = Plane { values, channels, size, columns };
        let mut patch = 0;
        for image in windows.first_image..windows.first_image + windows.images {
            let lines = plane.copy(image, some.clone(), lines_of(windows, 1, size[0]), pixels);
            for row in windows.first_row..windows.first_row + windows.height {
                for across in 0..gradient.blocks.patches[1] {
                    let mut begins = [[0; 4]; 4];
                    for (y, begins) in begins.iter_mut().enumerate() {
                        for (x, begin) in begins.iter_mut().enumerate() {
                            // A window begins a pixel before its patch.
                            let [y, x] = [PATCH * row + y, PATCH * across + x].map(|at| at.wrapping_sub(1));
                            *begin = plane.begin([y, x], &lines);
                        }
                    }
                    for channel in (0..some.len()).step_by(LANES) {
                        let pixel = |y: usize, x: usize| lanes::<f32, LANES>(pixels, begins[y][x] + channel);
                        put_window(pixel, &mut to[patch * columns + channel..], of_point);
                    }
                    patch += 1;
                }
            }
        }
    }
}

impl<E: StoredFloat> SimdLoops for PackStrip<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Packing { gradient, values, piece: PointsOf { windows, index, to }, pixels } = self.0;
        let ConvSizes { channels: [_, channels], output: size, .. } = gradient.sizes;
        let of_tile = gradient.tile.rows;
        let some = index * gradient.rows()..channels.min((index + 1) * gradient.rows());
        let [_, of_point] = gradient.of_point();
        let plane = Plane { values, channels, size, columns: ROWS };
        let of_tiles = gradient.blocks.patches_of(windows) * of_tile;
        for (tile, first) in some.clone().step_by(of_tile).enumerate() {
            let (some, mut at) = (first..some.end.min(first + of_tile), tile * of_tiles);
            for image in windows.first_image..windows.first_image + windows.images {
                let lines = plane.copy(image, some.clone(), lines_of(windows, 0, size[0]), pixels);
                for row in windows.first_row..windows.first_row + windows.height {
                    for across in 0..gradient.blocks.patches[1] {
                        let pixel = |y: usize, x: usize| {
                            lanes::<f32, ROWS>(
                                pixels,
                                plane.begin([PATCH * row + y, PATCH * across + x], &lines),
                            )
                        };
                        // Of constant length, a copy of points is one instruction.
                        match of_tile {
                            ROWS => put_patch::<ROWS>(pixel, &mut to[at..], of_point),
                            6 => put_patch::<6>(pixel, &mut to[at..], of_point),
                            _ => put_patch::<4>(pixel, &mut to[at..], of_point),
                        }
                        at += of_tile;
                    }
                }
            }
        }
    }
}

/// The lines of an image that the patches of some windows read, `around` lines above and below them.
fn lines_of(windows: &Windows, around: usize, height: usize) -> Range<usize> {
    let (first, count) = (PATCH * windows.first_row, PATCH * windows.height);
    first.saturating_sub(around)..height.min(first + count + around)
}

/// The channels of images, of which some are put side by side in `columns`.
struct Plane<'a, E> {
    values: &'a [E],
    channels: usize,
    size: [usize; 2],
    columns: usize,
}

impl<E: StoredFloat> Plane<'_, E> {
    /// Copies some lines of some channels behind a pixel of zeros, and gives these lines.
    #[inline(always)]
    fn copy(&self, image: usize, some: Range<usize>, lines: Range<usize>, to: &mut [f32]) -> Range<usize> {
        let [height, width] = self.size;
        let (zeros, to) = to.split_at_mut(self.columns);
        zeros.fill(0.0);
        let channel = |index: usize| {
            let plane = (image * self.channels + some.start + index) * height * width;
            &self.values[plane..][..height * width]
        };
        interleave(some.len(), channel, lines.start * width..lines.end * width, to, self.columns);
        lines
    }

    /// The begin of a pixel of copied lines: of zeros, if it lies beyond the image.
    #[inline(always)]
    fn begin(&self, [y, x]: [usize; 2], lines: &Range<usize>) -> usize {
        let [height, width] = self.size;
        if y < height && x < width { ((y - lines.start) * width + x + 1) * self.columns } else { 0 }
    }
}

/// Writes the points of a window: down and then across.
#[inline(always)]
fn put_window<'a, const LANES: usize>(
    pixel: impl Fn(usize, usize) -> &'a [f32; LANES],
    to: &mut [f32],
    of_point: usize,
) {
    let mut down = [[[0.0; LANES]; 4]; 4];
    for (x, down) in down.iter_mut().enumerate() {
        *down = window(pixel(0, x), pixel(1, x), pixel(2, x), pixel(3, x));
    }
    let [first, second, third, fourth] = &down;
    let rows = first.iter().zip(second).zip(third).zip(fourth);
    for (row, (((first, second), third), fourth)) in rows.enumerate() {
        let made = window(first, second, third, fourth);
        for (column, made) in made.iter().enumerate() {
            *lanes_mut(to, (4 * row + column) * of_point) = *made;
        }
    }
}

/// Writes the points of a patch of the gradient, as many of each as a tile has rows: down and then across.
#[inline(always)]
fn put_patch<'a, const OF_TILE: usize>(
    pixel: impl Fn(usize, usize) -> &'a [f32; ROWS],
    to: &mut [f32],
    of_point: usize,
) {
    let left = of_two(pixel(0, 0), pixel(1, 0));
    let right = of_two(pixel(0, 1), pixel(1, 1));
    for (row, (left, right)) in left.iter().zip(&right).enumerate() {
        for (column, made) in of_two(left, right).iter().enumerate() {
            *lanes_mut(to, (4 * row + column) * of_point) = *lanes::<f32, OF_TILE>(made, 0);
        }
    }
}

/// The points of two pixels.
#[inline(always)]
fn of_two(first: &[f32; ROWS], second: &[f32; ROWS]) -> [[f32; ROWS]; 4] {
    let mut negative = *second;
    negative.iter_mut().for_each(|number| *number = -*number);
    [*first, sum(first, second), difference(first, second), negative]
}
