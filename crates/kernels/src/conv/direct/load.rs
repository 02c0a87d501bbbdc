use std::ops::Range;

use burn::tensor::bf16;
use oomph_bf16::pair;

use super::grid::Grid;
use crate::{
    conv::pieces::{Pieces, lanes, lanes_mut, pieces},
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
        let [down, across] = &grid.axes;
        let (of_channel, skipped) = (down.source * across.source, across.low.max(0).unsigned_abs());
        let length = across.source.saturating_sub(skipped).min(grid.width - grid.before);
        let of_image = images.len() / count.max(1);
        for (channel, plane) in planes.chunks_exact_mut(grid.of_plane).enumerate() {
            let lines = band.len() + down.taps.len() - 1;
            let (of_lines, behind) = plane.split_at_mut(lines * grid.width * grid.images);
            behind.fill(0.0);
            for (line, to) in of_lines.chunks_exact_mut(grid.width * grid.images).enumerate() {
                let read = (band.start + line) as isize + down.low;
                let Some(read) = usize::try_from(read).ok().filter(|read| *read < down.source) else {
                    to.fill(0.0);
                    continue;
                };
                let (zeros, to) = to.split_at_mut(grid.before * grid.images);
                zeros.fill(0.0);
                let is_whole = count == grid.images;
                to[if is_whole { length * grid.images } else { 0 }..].fill(0.0);
                for image in 0..count {
                    let first = image * of_image + 2 * channel * of_channel + read * across.source + skipped;
                    let [even, odd] = [first, first + of_channel].map(|first| &images[first..][..length]);
                    if grid.images == 1 {
                        pieces(length, Paired { even, odd, to });
                    } else {
                        let to = to[image..].iter_mut().step_by(grid.images);
                        to.zip(even.iter().zip(odd)).for_each(|(to, (even, odd))| *to = pair(*even, *odd));
                    }
                }
            }
        }
    }
}

/// Puts the numbers of two channels together.
struct Paired<'a> {
    even: &'a [bf16],
    odd: &'a [bf16],
    to: &'a mut [f32],
}

impl Pieces for Paired<'_> {
    #[inline(always)]
    fn piece<const COUNT: usize>(&mut self, at: usize) {
        let [even, odd] = [self.even, self.odd].map(|channel| lanes::<_, COUNT>(channel, at));
        let mut pairs = [0.0; COUNT];
        for (to, (even, odd)) in pairs.iter_mut().zip(even.iter().zip(odd)) {
            *to = pair(*even, *odd);
        }
        *lanes_mut(self.to, at) = pairs;
    }
}
