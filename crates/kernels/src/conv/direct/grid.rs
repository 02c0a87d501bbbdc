use std::ops::Range;

use oomph_bf16::{SIDE, Shift};

use crate::{
    conv::product::ConvProduct,
    window::{Axis, kernel_indices},
};

/// About the most pairs of a band: they take half a MiB of the second-level cache.
const PAIRS: usize = 128 << 10;

/// The pixels of the target that belong to the same taps, and what they read: bands of lines, as planes of pairs.
///
/// A *spot* of a plane holds the pairs of the same pixel of some images. A line has zeros before its pixels; those behind them are the ones
/// before the next line.
///
/// With a stride of 2, pixels that a tap reads one after the other are apart in the source. So a plane has *phases*, down and across: the
/// first one has the pixels that the first tap reads, the second one those of the second tap. The third tap reads the first phase, one
/// pixel further.
pub(super) struct Grid {
    pub(super) axes: [Axis; 2],
    /// The index in the kernel of each tap.
    pub(super) kernel: Vec<usize>,
    /// The begin of the grid's packed weights.
    pub(super) weights: usize,
    /// Images of a spot.
    pub(super) images: usize,
    /// Spots of a line.
    pub(super) width: usize,
    /// Phases down and across.
    pub(super) phases: [usize; 2],
    /// Lines of a band, at most.
    band: usize,
    /// Pairs of a phase.
    pub(super) of_phase: usize,
    /// Pairs of a plane.
    pub(super) of_plane: usize,
}

/// Pixels side by side in a line of the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// The first of their spots, from that of the first strip on.
    pub(super) first: usize,
    pub(super) length: usize,
    /// The place in an image of the target of the first one, and the distance to the next one.
    pub(super) target: [usize; 2],
}

/// Pixels side by side in a line of a band.
struct Run {
    /// The first of their spots.
    first: usize,
    line: usize,
    columns: Range<usize>,
}

impl Grid {
    pub(super) fn new(product: ConvProduct, axes: &[Axis; 2], images: usize, weights: usize) -> Self {
        let [down, across] = axes;
        let phases = [down, across].map(|axis| axis.stride.min(axis.taps.len()));
        let reach = across.grid + further(across);
        let before = (-across.low).max(0).unsigned_abs();
        let behind = (reach as isize + across.low - across.source as isize).max(0).unsigned_abs();
        let width = if across.stride == 1 { reach - before.min(behind) } else { reach };
        let kernel = kernel_indices(axes, product.kernel).collect();
        let of_line = (product.channels / 2 * width * images * phases[0] * phases[1]).max(1);
        let lines = (PAIRS / of_line).saturating_sub(further(down)).max(1);
        let band = down.grid.div_ceil(down.grid.div_ceil(lines).max(1));
        let of_phase = (band + further(down)) * width * images;
        let axes = axes.clone();
        let grid = Self { axes, kernel, weights, images, width, phases, band, of_phase, of_plane: 0 };
        Self { of_plane: grid.pairs_of_plane(), ..grid }
    }

    /// Lines of a phase that a band reads.
    pub(super) fn lines(&self, band: &Range<usize>) -> usize {
        band.len() + further(&self.axes[0])
    }

    /// Pairs of a plane: those of all strips, and what they read behind. Planes are an odd number of cache lines apart, so that those of a
    /// position lie in different places of the cache.
    fn pairs_of_plane(&self) -> usize {
        const LINE: usize = 16;
        let last = (0..self.kernel.len()).map(|tap| self.distance(tap)).max().unwrap_or(0);
        let read = self.strips(self.band) * SIDE + last;
        let phases = self.phases[0] * self.phases[1] * self.of_phase;
        (read.max(phases).div_ceil(LINE) | 1) * LINE
    }

    /// The distance of what a tap reads from its position.
    fn distance(&self, tap: usize) -> usize {
        let ([y, x], [down, across]) = (self.place(tap), &self.axes);
        let phase = y % down.stride * self.phases[1] + x % across.stride;
        phase * self.of_phase + (y / down.stride * self.width + x / across.stride) * self.images
    }

    /// The indices of a tap down and across.
    fn place(&self, tap: usize) -> [usize; 2] {
        let across = self.axes[1].taps.len();
        [tap / across, tap % across]
    }

    /// Pixels of an image.
    pub(super) fn pixels(&self) -> usize {
        self.axes[0].grid * self.axes[1].grid
    }

    /// Products of a row and a channel for the pixels and the other positions of an image, rounded.
    pub(super) fn products(&self) -> usize {
        let of_strip = |band: &Range<usize>, strip| {
            SIDE * (0..self.kernel.len()).filter(|tap| self.is_read(band, strip, *tap)).count()
        };
        let of_band = |band: Range<usize>| {
            (0..self.strips(band.len())).map(|strip| of_strip(&band, strip)).sum::<usize>()
        };
        self.bands().map(of_band).sum::<usize>().div_ceil(self.images)
    }

    /// Positions that are loaded for an image.
    pub(super) fn loaded(&self) -> usize {
        let lines = self.bands().map(|band| self.lines(&band));
        lines.sum::<usize>() * self.width * self.phases[0] * self.phases[1]
    }

    /// The lines of each band.
    pub(super) fn bands(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (lines, band) = (self.axes[0].grid, self.band.max(1));
        (0..lines).step_by(band).map(move |first| first..(first + band).min(lines))
    }

    /// Strips of some lines.
    pub(super) fn strips(&self, lines: usize) -> usize {
        (lines * self.width * self.images).div_ceil(SIDE)
    }

    /// Spots of a strip.
    fn spots(&self) -> usize {
        SIDE / self.images
    }

    /// What a strip of a band reads for the taps that find pixels. The others read zeros.
    pub(super) fn shifts(&self, band: &Range<usize>, strip: usize) -> Vec<Shift> {
        let read = (0..self.kernel.len()).filter(|tap| self.is_read(band, strip, *tap));
        read.map(|index| Shift { by: self.distance(index), index }).collect()
    }

    fn is_read(&self, band: &Range<usize>, strip: usize, tap: usize) -> bool {
        let ([down, across], [y, x]) = (&self.axes, self.place(tap));
        let within = across.pixels_within(x);
        let spots = strip * self.spots()..(strip + 1) * self.spots();
        self.runs(band, spots).any(|run| {
            let is_within = run.columns.start < within.end && within.start < run.columns.end;
            is_within && down.read(band.start + run.line, y).is_some()
        })
    }

    /// The pixels of some spots of a band, line by line.
    fn runs(&self, band: &Range<usize>, spots: Range<usize>) -> impl Iterator<Item = Run> + use<> {
        let (width, columns) = (self.width, self.axes[1].grid);
        let lines = spots.start / width..spots.end.div_ceil(width).min(band.len());
        lines.filter_map(move |line| {
            let first = spots.start.max(line * width);
            let columns =
                first - line * width..spots.end.min(line * width + columns).saturating_sub(line * width);
            (!columns.is_empty()).then_some(Run { first, line, columns })
        })
    }

    /// The pixels of some strips of a band, line by line. Those of an image of the target lie in lines of `of_line`. If a spot has one image, a
    /// piece lies in one strip.
    pub(super) fn pieces(
        &self,
        band: &Range<usize>,
        strips: Range<usize>,
        of_line: usize,
    ) -> impl Iterator<Item = Piece> {
        let [[top, under], [left, step]] = self.axes.each_ref().map(|axis| axis.target);
        let spots = strips.start * self.spots()..strips.end * self.spots();
        let at_once = if self.images == 1 { SIDE } else { spots.len().max(1) };
        let first_line = band.start;
        spots.clone().step_by(at_once).flat_map(move |first| {
            let begin = spots.start;
            self.runs(band, first..first + at_once).map(move |Run { first, line, columns }| {
                let row = top + (first_line + line) * under;
                let target = [row * of_line + left + columns.start * step, step];
                Piece { first: first - begin, length: columns.len(), target }
            })
        })
    }
}

/// How many pixels of a phase further the last tap reads than the first one.
fn further(axis: &Axis) -> usize {
    axis.taps.len().div_ceil(axis.stride) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::product::ConvSizes;

    /// Every pixel is in one piece, and finds what its taps read at their distances.
    #[test]
    fn every_pixel_is_in_one_piece() {
        for (images, [height, width], channels) in
            [(1, [40, 33], 2048), (1, [3, 70], 32), (8, [7, 7], 64), (16, [5, 3], 8192), (32, [4, 4], 32)]
        {
            let sizes = ConvSizes {
                batch: images,
                channels: [channels, 1],
                input: [height, width],
                output: [height, width],
                kernel: [3; 2],
            };
            let axes = [height, width].map(|size| Axis::forward(size, 3, 1, 1));
            let grid = Grid::new(ConvProduct::forward(sizes), &axes, images, 0);
            let mut found = vec![0; height * width];
            for band in grid.bands() {
                for first in (0..grid.strips(band.len())).step_by(3) {
                    let strips = first..grid.strips(band.len()).min(first + 3);
                    for Piece { first, length, target: [target, step] } in
                        grid.pieces(&band, strips.clone(), width)
                    {
                        assert_eq!(step, 1);
                        let spot = strips.start * SIDE / images + first;
                        assert_eq!((band.start + spot / grid.width) * width + spot % grid.width, target);
                        found[target..target + length].iter_mut().for_each(|count| *count += 1);
                    }
                }
            }
            assert_eq!(found, vec![1; height * width], "{images} {height}x{width}");
        }
    }

    #[test]
    fn taps_of_a_stride_find_their_pixels_in_phases() {
        for (size, kernel) in [([9, 8], 3), ([7, 12], 3), ([10, 11], 2), ([13, 9], 5)] {
            let axes = size.map(|size| Axis::forward(size, kernel, 2, kernel / 2));
            let sizes = ConvSizes {
                batch: 1,
                channels: [32, 1],
                input: size,
                output: axes.each_ref().map(|axis| axis.grid),
                kernel: [kernel; 2],
            };
            let grid = Grid::new(ConvProduct::forward(sizes), &axes, 1, 0);
            let [down, across] = &axes;
            for (line, column) in (0..down.grid).flat_map(|line| (0..across.grid).map(move |at| (line, at))) {
                for tap in 0..kernel * kernel {
                    let at = line * grid.width + column + grid.distance(tap);
                    let (phase, at) = (at / grid.of_phase, at % grid.of_phase);
                    let place = [at / grid.width, at % grid.width];
                    let phase = [phase / grid.phases[1], phase % grid.phases[1]];
                    let read =
                        [[line, tap / kernel], [column, tap % kernel]].map(|[pixel, tap]| 2 * pixel + tap);
                    assert_eq!(
                        [0, 1].map(|axis| 2 * place[axis] + phase[axis]),
                        read,
                        "{size:?} {kernel} {tap}"
                    );
                }
            }
        }
    }

    #[test]
    fn taps_that_read_zeros_are_left_out() {
        let sizes = ConvSizes { batch: 32, channels: [32, 1], input: [4; 2], output: [4; 2], kernel: [3; 2] };
        let axes = [4, 4].map(|size| Axis::forward(size, 3, 1, 1));
        let grid = Grid::new(ConvProduct::forward(sizes), &axes, 32, 0);
        // A corner reads four of nine pixels.
        let found: Vec<usize> = grid.shifts(&(0..4), 0).iter().map(|shift| shift.index).collect();
        assert_eq!(found, [4, 5, 7, 8]);
        assert_eq!(grid.products(), 100);
    }
}
