//! What every way to compute a convolution starts from, forward or back to the input: a product of matrices, and what is
//! computed of it at once.

use std::mem::MaybeUninit;

use crate::kernel::tile::Tile;

/// What is convolved with what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    /// Channels of input and output.
    pub(super) channels: [usize; 2],
    /// Height and width of input and output.
    pub(super) input: [usize; 2],
    pub(super) output: [usize; 2],
    pub(super) kernel: [usize; 2],
}

impl Sizes {
    pub(super) fn taps(self) -> usize {
        self.kernel[0] * self.kernel[1]
    }
}

/// Of each image of a source its channels, times weights: rows of a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    pub(super) batch: usize,
    /// Channels of the source.
    pub(super) channels: usize,
    /// Channels of the target.
    pub(super) rows: usize,
    /// Height and width.
    pub(super) source: [usize; 2],
    pub(super) target: [usize; 2],
    pub(super) kernel: [usize; 2],
    /// How far apart weights are from row to row, and from channel to channel.
    pub(super) weights: [usize; 2],
}

/// Rows of the target of some images.
pub(super) struct Task<'a, T> {
    pub(super) first_image: usize,
    pub(super) first_row: usize,
    pub(super) rows: usize,
    /// Of each image the rows.
    pub(super) images: Vec<&'a mut [MaybeUninit<T>]>,
}

impl Product {
    /// From input to output.
    pub(super) fn forward(sizes: Sizes) -> Self {
        let Sizes { batch, channels: [channels, rows], input: source, output: target, kernel } = sizes;
        let weights = [channels * sizes.taps(), sizes.taps()];
        Self { batch, channels, rows, source, target, kernel, weights }
    }

    /// From the output's gradient to the input's.
    pub(super) fn backward(sizes: Sizes) -> Self {
        let Sizes { batch, channels: [rows, channels], input: target, output: source, kernel } = sizes;
        let weights = [sizes.taps(), rows * sizes.taps()];
        Self { batch, channels, rows, source, target, kernel, weights }
    }

    /// Rows that a task of so many images computes: few enough that there are tasks for all threads, but not much fewer
    /// than `least`, and at most `most`.
    pub(super) fn rows_of_a_task(&self, tile: Tile, images: usize, [least, most]: [usize; 2]) -> usize {
        let groups = self.batch.div_ceil(images).max(1);
        let threads = rayon::current_num_threads();
        let tasks = if threads > 1 { 4 * threads } else { 1 };
        let parts =
            tasks.div_ceil(groups).min(self.rows.div_ceil(least)).max(self.rows.div_ceil(most.max(1)));
        tile.padded_rows(self.rows.div_ceil(parts.max(1)))
    }

    /// Of the target.
    pub(super) fn shape(&self) -> [usize; 4] {
        [self.batch, self.rows, self.target[0], self.target[1]]
    }

    /// Cuts the target into what is computed at once: some images, some rows.
    pub(super) fn tasks<'a, T>(
        &self,
        images: usize,
        rows: usize,
        target: &'a mut [MaybeUninit<T>],
    ) -> Vec<Task<'a, T>> {
        let pixels = self.target[0] * self.target[1];
        let parts = self.rows.div_ceil(rows);
        let groups = self.batch.div_ceil(images);
        let task = |index: usize| {
            let first_row = index % parts * rows;
            Task {
                first_image: index / parts * images,
                first_row,
                rows: rows.min(self.rows - first_row),
                images: Vec::new(),
            }
        };
        let mut tasks: Vec<_> = (0..groups * parts).map(task).collect();
        for (image, elements) in target.chunks_mut((self.rows * pixels).max(1)).enumerate() {
            for (part, elements) in elements.chunks_mut(rows * pixels).enumerate() {
                tasks[image / images * parts + part].images.push(elements);
            }
        }
        tasks
    }
}
