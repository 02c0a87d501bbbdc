use oomph_amx::SIDE;

use crate::conv::{
    product::ConvProduct,
    window::{Axis, PixelRun},
};

/// The pixels of the target that belong to the same taps.
pub(super) struct Grid {
    axes: [Axis; 2],
    /// Pixels of a line of the source, and of the target.
    widths: [usize; 2],
    /// The index in the kernel of each tap.
    pub(super) kernel: Vec<usize>,
    /// The pixels of some images, strip by strip.
    pub(super) strips: Vec<Vec<Piece>>,
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
    pub(super) fn new(product: ConvProduct, axes: &[Axis; 2], images: usize, weights: usize) -> Self {
        let [down, across] = axes;
        let [_, width] = product.kernel;
        let kernel = down.taps.iter().flat_map(|y| across.taps.iter().map(move |x| y * width + x)).collect();
        let (axes, widths) = match as_one_line(axes) {
            Some(axes) => (axes, [0; 2]),
            None => (axes.clone(), [product.source[1], product.target[1]]),
        };
        let strips = strips(&axes, images);
        Self { axes, widths, kernel, strips, weights }
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

    /// What a strip reads of the first `images` images, for each tap.
    pub(super) fn runs(&self, strip: &[Piece], images: usize) -> Vec<Vec<Run>> {
        let taps = self.axes[0].taps.len() * self.axes[1].taps.len();
        let of_tap = |tap| {
            strip
                .iter()
                .filter(|piece| piece.image < images)
                .filter_map(|piece| self.run(piece, tap))
                .collect()
        };
        (0..taps).map(|tap| of_tap([tap / self.axes[1].taps.len(), tap % self.axes[1].taps.len()])).collect()
    }

    /// What a piece reads for a tap, if there is a pixel.
    fn run(&self, piece: &Piece, tap: [usize; 2]) -> Option<Run> {
        let [down, across] = &self.axes;
        let within = across.pixels_within(tap[1]);
        let begin = piece.column.max(within.start);
        let end = (piece.column + piece.length).min(within.end);
        let source = down.read(piece.row, tap[0])? * self.widths[0] + across.read(begin, tap[1])?;
        let at = piece.at + begin - piece.column;
        let pixels = PixelRun { at, length: end.checked_sub(begin)?, source, step: across.stride };
        Some(Run { image: piece.image, pixels })
    }
}

impl Run {
    /// Whether a strip has nothing else.
    pub(super) fn is_whole(&self) -> bool {
        self.pixels.length == SIDE && self.pixels.step == 1
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

/// The pixels of some images, cut into strips.
fn strips([down, across]: &[Axis; 2], images: usize) -> Vec<Vec<Piece>> {
    let mut strips: Vec<Vec<Piece>> = Vec::new();
    let mut at = SIDE;
    for (image, row) in (0..images).flat_map(|image| (0..down.grid).map(move |row| (image, row))) {
        let mut column = 0;
        while column < across.grid {
            if at == SIDE {
                strips.push(Vec::new());
                at = 0;
            }
            let length = (SIDE - at).min(across.grid - column);
            strips
                .last_mut()
                .into_iter()
                .for_each(|strip| strip.push(Piece { image, at, length, row, column }));
            (at, column) = (at + length, column + length);
        }
    }
    strips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pixel_of_every_image_is_in_one_strip() {
        let axes = [3, 50].map(|size| Axis::forward(size, 3, 2, 1));
        let strips = strips(&axes, 3);
        let pixels = 3 * axes[0].grid * axes[1].grid;
        assert_eq!(strips.len(), pixels.div_ceil(SIDE));
        let lengths = strips.iter().map(|strip| strip.iter().map(|piece| piece.length).sum::<usize>());
        assert_eq!(lengths.sum::<usize>(), pixels);
        for strip in &strips {
            assert!(strip.windows(2).all(|pair| pair[0].at + pair[0].length == pair[1].at), "{strip:?}");
        }
    }
}
