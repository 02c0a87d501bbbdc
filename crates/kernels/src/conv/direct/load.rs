use std::ops::Range;

use burn::tensor::bf16;
use oomph_bf16::pair;

use super::grid::Grid;
use crate::{
    conv::pieces::{Pieces, lanes_mut, pieces},
    simd::SimdLoops,
};

/// Makes the planes of a band from the channels of images.
pub(super) struct LoadBand<'a> {
    pub(super) grid: &'a Grid,
    /// The images, one behind the other.
    pub(super) images: &'a [bf16],
    pub(super) count: usize,
    pub(super) band: Range<usize>,
    pub(super) planes: &'a mut [f32],
}

impl SimdLoops for LoadBand<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { grid, images, count, band, planes } = self;
        for (channel, plane) in planes.chunks_exact_mut(grid.of_plane).enumerate() {
            let [down, across] = grid.phases;
            let (phases, behind) = plane.split_at_mut(down * across * grid.of_phase);
            behind.fill(0.0);
            for (index, to) in phases.chunks_exact_mut(grid.of_phase).enumerate() {
                let phase = [index / across, index % across];
                let load = LoadPhase { grid, images, count, band: &band, channel, phase };
                match grid.axes[1].stride {
                    1 => load.put::<1>(to),
                    _ => load.put::<2>(to),
                }
            }
        }
    }
}

/// Makes a phase of the plane of two channels.
struct LoadPhase<'a> {
    grid: &'a Grid,
    images: &'a [bf16],
    count: usize,
    band: &'a Range<usize>,
    /// The number of the plane.
    channel: usize,
    phase: [usize; 2],
}

impl LoadPhase<'_> {
    /// `STEP` is the distance of neighbours in the source.
    #[inline(always)]
    fn put<const STEP: usize>(&self, to: &mut [f32]) {
        let Self { grid, images, count, band, channel, phase } = self;
        let [down, across] = &grid.axes;
        let (of_channel, of_image) = (down.source * across.source, images.len() / (*count).max(1));
        let [top, left] = [down.low + phase[0] as isize, across.low + phase[1] as isize];
        // Zeros before the pixels of a line.
        let before = (-left).max(0).unsigned_abs().div_ceil(STEP);
        let skipped = (left + (before * STEP) as isize).max(0).unsigned_abs();
        let length = across.source.saturating_sub(skipped).div_ceil(STEP).min(grid.width - before);
        let span = (length * STEP).saturating_sub(STEP - 1);
        let (of_lines, behind) = to.split_at_mut(grid.lines(band) * grid.width * grid.images);
        behind.fill(0.0);
        for (line, to) in of_lines.chunks_exact_mut(grid.width * grid.images).enumerate() {
            let read = ((band.start + line) * down.stride) as isize + top;
            let Some(read) = usize::try_from(read).ok().filter(|read| *read < down.source) else {
                to.fill(0.0);
                continue;
            };
            let (zeros, to) = to.split_at_mut(before * grid.images);
            zeros.fill(0.0);
            let is_whole = *count == grid.images;
            to[if is_whole { length * grid.images } else { 0 }..].fill(0.0);
            for image in 0..*count {
                let first = image * of_image + 2 * channel * of_channel + read * across.source + skipped;
                let [even, odd] = [first, first + of_channel].map(|first| &images[first..][..span]);
                if grid.images == 1 {
                    pieces(length, Paired::<STEP> { even, odd, to });
                } else {
                    let to = to[image..].iter_mut().step_by(grid.images);
                    let pairs = even.iter().step_by(STEP).zip(odd.iter().step_by(STEP));
                    to.zip(pairs).for_each(|(to, (even, odd))| *to = pair(*even, *odd));
                }
            }
        }
    }
}

/// Puts the numbers of two channels together: every one, or every second one.
struct Paired<'a, const STEP: usize> {
    even: &'a [bf16],
    odd: &'a [bf16],
    to: &'a mut [f32],
}

impl<const STEP: usize> Pieces for Paired<'_, STEP> {
    #[inline(always)]
    fn piece<const COUNT: usize>(&mut self, at: usize) {
        let span = COUNT * STEP - (STEP - 1);
        let (even, odd) = (&self.even[at * STEP..][..span], &self.odd[at * STEP..][..span]);
        let mut pairs = [0.0; COUNT];
        for (index, to) in pairs.iter_mut().enumerate() {
            *to = pair(even[index * STEP], odd[index * STEP]);
        }
        *lanes_mut(self.to, at) = pairs;
    }
}
