use oomph_bf16::SIDE;

use crate::{
    conv::product::ConvProduct,
    window::{Axis, PixelRun, kernel_indices},
};

/// The pixels of the target that belong to the same taps.
pub(super) struct Grid {
    axes: [Axis; 2],
    /// Pixels of a line of the source, and of the target.
    widths: [usize; 2],
    /// The index in the kernel of each tap.
    pub(super) kernel: Vec<usize>,
    /// The begin of the grid's packed weights.
    pub(super) weights: usize,
}

/// Pixels of a line of a grid that a strip has side by side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) image: usize,
    /// The first one in the strip.
    pub(super) at: usize,
    pub(super) length: usize,
    row: usize,
    /// The first one in the line.
    column: usize,
}

/// Pixels of an image of the source that a strip has side by side.
pub(super) struct Run {
    pub(super) image: usize,
    pub(super) pixels: PixelRun,
}

impl Grid {
    pub(super) fn new(product: ConvProduct, axes: &[Axis; 2], weights: usize) -> Self {
        let kernel = kernel_indices(axes, product.kernel).collect();
        let (axes, widths) = match as_one_line(axes) {
            Some(axes) => (axes, [0; 2]),
            None => (axes.clone(), [product.source[1], product.target[1]]),
        };
        Self { axes, widths, kernel, weights }
    }

    /// Inner indices: channel by channel, tap by tap.
    pub(super) fn inner(&self, product: ConvProduct) -> usize {
        product.channels * self.kernel.len()
    }

    /// Pixels of an image.
    pub(super) fn pixels(&self) -> usize {
        self.axes[0].grid * self.axes[1].grid
    }

    /// The place in an image of the target of a piece's first pixel, and the distance to the next one.
    pub(super) fn target(&self, piece: &Piece) -> [usize; 2] {
        let [[top, under], [left, step]] = self.axes.each_ref().map(|axis| axis.target);
        [(top + piece.row * under) * self.widths[1] + left + piece.column * step, step]
    }

    /// Strips of the pixels of some images, which stand one behind the other.
    pub(super) fn strips(&self, images: usize) -> usize {
        (images * self.pixels()).div_ceil(SIDE)
    }

    /// The pixels of a strip, line by line.
    pub(super) fn pieces(&self, strip: usize, images: usize) -> impl Iterator<Item = Piece> {
        let ([lines, width], first) = (self.axes.each_ref().map(|axis| axis.grid.max(1)), strip * SIDE);
        let end = (images * self.pixels()).min(first + SIDE);
        let mut next = first;
        std::iter::from_fn(move || {
            let (line, column, at) = (next / width, next % width, next - first);
            next = end.min(next + width - column);
            let length = next - first - at;
            (length > 0).then_some(Piece { image: line / lines, at, length, row: line % lines, column })
        })
    }

    /// What a strip reads of some images, for each tap.
    pub(super) fn runs(&self, strip: usize, images: usize) -> Vec<Vec<Run>> {
        let width = self.axes[1].taps.len();
        let of_tap = |tap| {
            let run = |piece: Piece| {
                let columns = piece.column..piece.column + piece.length;
                let pixels = PixelRun::read(&self.axes, self.widths[0], [piece.row, piece.at], columns, tap)?;
                Some(Run { image: piece.image, pixels })
            };
            self.pieces(strip, images).filter_map(run).collect()
        };
        (0..self.kernel.len()).map(|tap| of_tap([tap / width, tap % width])).collect()
    }
}

impl Run {
    /// The first pixel of a strip with one tap, whose pixels stand side by side, and its image.
    fn first_of_whole(taps: &[Vec<Self>]) -> Option<[usize; 2]> {
        let [runs] = taps else { return None };
        let [Self { image, pixels }] = runs.as_slice() else { return None };
        (pixels.length == SIDE && pixels.step == 1).then_some([*image, pixels.source])
    }

    /// How many of the first strips have one tap and read pixels that stand side by side, those of a strip behind those of the one before.
    pub(super) fn strips_side_by_side(strips: &[Vec<Vec<Self>>]) -> usize {
        let Some([image, first]) = strips.first().and_then(|taps| Self::first_of_whole(taps)) else {
            return 0;
        };
        let follows = |(index, taps): &(usize, &Vec<Vec<Self>>)| {
            Self::first_of_whole(taps) == Some([image, first + index * SIDE])
        };
        strips.iter().enumerate().take_while(follows).count()
    }

    /// Copies the pixels of some runs side by side, with zeros where there are none. `plane` gives the image of a run.
    #[inline(always)]
    pub(super) fn gather<'a, E: Copy + 'a>(
        runs: &[Self],
        plane: impl Fn(&Self) -> &'a [E],
        zero: E,
        to: &mut [E; SIDE],
    ) {
        if runs.iter().map(|run| run.pixels.length).sum::<usize>() < SIDE {
            to.fill(zero);
        }
        for run in runs {
            run.pixels.copy(plane(run), to);
        }
    }
}

/// The same grid as one line, if its lines stand one behind the other in source and target.
fn as_one_line(axes: &[Axis; 2]) -> Option<[Axis; 2]> {
    let lies_as_it_is = |axis: &Axis| axis.reads_as_it_lies() && axis.target == [0, 1];
    let axis =
        |pixels| Axis { grid: pixels, target: [0, 1], source: pixels, stride: 1, low: 0, taps: vec![0] };
    axes.iter().all(lies_as_it_is).then(|| [axis(1), axis(axes[0].grid * axes[1].grid)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::product::ConvSizes;

    #[test]
    fn every_pixel_of_every_image_is_in_one_strip() {
        let product = ConvProduct::forward(ConvSizes {
            batch: 3,
            channels: [1, 1],
            input: [3, 50],
            output: [2, 25],
            kernel: [3; 2],
        });
        let grid = Grid::new(product, &[3, 50].map(|size| Axis::forward(size, 3, 2, 1)), 0);
        let mut found = Vec::new();
        for strip in 0..grid.strips(3) {
            let mut at = 0;
            for piece in grid.pieces(strip, 3) {
                assert_eq!(piece.at, at);
                at += piece.length;
                found.extend((0..piece.length).map(|i| [piece.image, piece.row, piece.column + i]));
            }
        }
        let all = (0..3).flat_map(|image| (0..50).map(move |pixel| [image, pixel / 25, pixel % 25]));
        assert_eq!(found, all.collect::<Vec<_>>());
    }
}
