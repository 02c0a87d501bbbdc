//! A convolution, forward or back to the input, as a matrix product, and its tasks.

use std::{mem::MaybeUninit, ops::Range};

use super::finish::{Finishing, write};
use crate::{stored_float::StoredFloat, tile::Tile, workers};

/// The sizes of a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConvSizes {
    pub(super) batch: usize,
    /// Channels of the input, and of the output.
    pub(super) channels: [usize; 2],
    /// Height and width of the input.
    pub(super) input: [usize; 2],
    /// Height and width of the output.
    pub(super) output: [usize; 2],
    /// Height and width of the kernel.
    pub(super) kernel: [usize; 2],
}

impl ConvSizes {
    pub(super) fn taps(self) -> usize {
        self.kernel[0] * self.kernel[1]
    }
}

/// The channels of each source image, times weights: the rows of a target image.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConvProduct {
    pub(super) batch: usize,
    /// Channels of the source.
    pub(super) channels: usize,
    /// Channels of the target.
    pub(super) rows: usize,
    /// Height and width.
    pub(super) source: [usize; 2],
    pub(super) target: [usize; 2],
    pub(super) kernel: [usize; 2],
    /// Elements between the weights of two rows, and of two channels.
    pub(super) weights: [usize; 2],
}

/// Rows of the target of some images.
pub(super) struct ConvTask<'a, T> {
    pub(super) first_image: usize,
    /// The first row, of those whose weights are packed together.
    pub(super) first_row: usize,
    /// The channel of the target of that row.
    channel: usize,
    pub(super) rows: usize,
    /// The rows of each image.
    pub(super) images: Vec<&'a mut [MaybeUninit<T>]>,
    /// What becomes of the products of the output before they are written.
    finishing: Option<&'a Finishing<'a, T>>,
    /// Rows and pixels of an image.
    sizes: [usize; 2],
}

impl<T: StoredFloat> ConvTask<'_, T> {
    /// Writes products to contiguous pixels of a row, from pixel `first` on.
    #[inline(always)]
    pub(super) fn write(&mut self, image: usize, row: usize, first: usize, products: &[f32]) {
        let [rows, pixels] = self.sizes;
        let to = &mut self.images[image][row * pixels + first..][..products.len()];
        match self.finishing {
            Some(finishing) => {
                let channel = self.channel + row;
                let at = ((self.first_image + image) * rows + channel) * pixels + first;
                finishing.write(channel, at, products, to);
            }
            None => write(products, to, |product| product),
        }
    }

    /// Writes products to pixels of a row, of which the first one and the distance to the next one are given. Those of a finished output
    /// are contiguous.
    #[inline(always)]
    pub(super) fn write_every(
        &mut self,
        image: usize,
        row: usize,
        [first, step]: [usize; 2],
        products: &[f32],
    ) {
        if step == 1 {
            return self.write(image, row, first, products);
        }
        let [_, pixels] = self.sizes;
        let to = self.images[image][row * pixels..][..pixels][first..].iter_mut();
        to.step_by(step).zip(products).for_each(|(to, product)| _ = to.write(T::rounded(*product)));
    }
}

impl ConvProduct {
    /// The product that computes the output from the input.
    pub(super) fn forward(sizes: ConvSizes) -> Self {
        let ConvSizes { batch, channels: [channels, rows], input: source, output: target, kernel } = sizes;
        let weights = [channels * sizes.taps(), sizes.taps()];
        Self { batch, channels, rows, source, target, kernel, weights }
    }

    /// The product that computes the input's gradient from the output's.
    pub(super) fn backward(sizes: ConvSizes) -> Self {
        let ConvSizes { batch, channels: [rows, channels], input: target, output: source, kernel } = sizes;
        let weights = [sizes.taps(), rows * sizes.taps()];
        Self { batch, channels, rows, source, target, kernel, weights }
    }

    /// Rows of a task of `images` images: few enough that all threads have tasks, but not much fewer than `least`, and at
    /// most `most`.
    pub(super) fn rows_of_a_task(&self, tile: Tile, images: usize, [least, most]: [usize; 2]) -> usize {
        let groups = self.batch.div_ceil(images).max(1);
        let threads = workers::threads();
        let tasks = if threads > 1 { 4 * threads } else { 1 };
        let parts =
            tasks.div_ceil(groups).min(self.rows.div_ceil(least)).max(self.rows.div_ceil(most.max(1)));
        tile.padded_rows(self.rows.div_ceil(parts.max(1)))
    }

    /// The shape of the target.
    pub(super) fn shape(&self) -> [usize; 4] {
        [self.batch, self.rows, self.target[0], self.target[1]]
    }

    /// Cuts some rows of the target into tasks of some images and `of_task` rows.
    pub(super) fn tasks<'a, T>(
        &self,
        images: usize,
        rows: Range<usize>,
        of_task: usize,
        target: &'a mut [MaybeUninit<T>],
        finishing: Option<&'a Finishing<'a, T>>,
    ) -> Vec<ConvTask<'a, T>> {
        let pixels = self.target[0] * self.target[1];
        let parts = rows.len().div_ceil(of_task);
        let groups = self.batch.div_ceil(images);
        let task = |index: usize| {
            let first_row = index % parts * of_task;
            ConvTask {
                first_image: index / parts * images,
                first_row,
                channel: rows.start + first_row,
                rows: of_task.min(rows.len() - first_row),
                images: Vec::new(),
                finishing,
                sizes: [self.rows, pixels],
            }
        };
        let mut tasks: Vec<_> = (0..groups * parts).map(task).collect();
        for (image, elements) in target.chunks_mut((self.rows * pixels).max(1)).enumerate() {
            let elements = &mut elements[rows.start * pixels..rows.end * pixels];
            for (part, elements) in elements.chunks_mut(of_task * pixels).enumerate() {
                tasks[image / images * parts + part].images.push(elements);
            }
        }
        tasks
    }
}
