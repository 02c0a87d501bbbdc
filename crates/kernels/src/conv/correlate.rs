//! The gradient of the kernels of a convolution: for each element of a kernel, the sum over all pixels of its input times the
//! output's gradient.
//!
//! As a matrix product, its inner index is the pixel. The gradient is put in tiles with the output channels side by side,
//! and the input is copied with its channels side by side. The inputs of a pixel and a tap are read in place from that copy,
//! so that the matrix of all inputs of all pixels never exists.
//!
//! Every result is one sum in a fixed order, pixel by pixel, in parts of [`DEPTH`] and of some images: it does not depend on
//! the number of tasks.

use std::{mem::MaybeUninit, ops::Range};

use oomph_core::{Account, charge};

use rayon::prelude::*;

use super::product::ConvSizes;
use crate::{
    custom_op::Workspace,
    interleave::{interleave, interleave_some},
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, with_values},
    tile::{Factors, ScatteredColumns, Tile, TileColumn},
    uninit,
    window::{Axis, Line, PixelRun},
    workers,
};

/// Pixels multiplied at once: that many rows of a tile fit into the first-level cache.
const DEPTH: usize = 256;

/// About the elements of both copies: they fit into the caches, and are few beside the tensors kept for backward.
const COPIES: usize = 512 << 10;

/// The computation of the kernels' gradient.
pub(super) struct Correlate {
    tile: Tile,
    sizes: ConvSizes,
    axes: [Axis; 2],
    lines: [Line; 2],
    /// Pixels of an image in the copy of the input.
    plane: usize,
    /// Images that are copied at once.
    images: usize,
}

/// Some rows of the kernels' gradient, for one task.
struct CorrelateTask<'a> {
    first: usize,
    /// The elements of some input channels, of each row.
    rows: Vec<&'a mut [f32]>,
    /// The first of those channels.
    channel: usize,
}

impl Correlate {
    pub(super) fn new(sizes: ConvSizes, axes: &[Axis; 2]) -> Self {
        let tile = Tile::for_scattered();
        let [down, across] = axes;
        let lines = [Line::by_tap(down, down.grid), Line::ByPixel { pixels: across.grid }];
        let plane = lines[0].length(down) * lines[1].length(across);
        let [input, output] = sizes.channels;
        let pixels = sizes.output[0] * sizes.output[1];
        let of_image = input * plane + tile.padded_rows(output) * pixels;
        let images = (COPIES / of_image.max(1)).clamp(1, sizes.batch.max(1));
        // The parts are as even as possible.
        let images = sizes.batch.div_ceil(sizes.batch.div_ceil(images).max(1)).max(1);
        Self { tile, sizes, axes: axes.clone(), lines, plane, images }
    }

    fn pixels(&self) -> usize {
        self.sizes.output[0] * self.sizes.output[1]
    }

    /// Elements of the copies of input and gradient.
    fn copies(&self) -> [usize; 2] {
        let [input, output] = self.sizes.channels;
        [
            // A tile reads whole runs, beyond the last channel too.
            self.images * self.plane * input + self.tile.columns,
            self.images * self.pixels() * self.tile.padded_rows(output),
        ]
    }

    /// Rows of kernels of a task: few enough that all threads have tasks.
    fn rows_of_a_task(&self) -> usize {
        /// The rows for which a block of the input is read once.
        const MOST: usize = 64;
        let [input, output] = self.sizes.channels;
        let blocks = input.div_ceil(self.tile.columns).max(1);
        let threads = workers::threads();
        let tasks = if threads > 1 { 3 * threads } else { 1 };
        let parts = tasks.div_ceil(blocks).max(output.div_ceil(MOST));
        self.tile.padded_rows(output.div_ceil(parts))
    }

    /// Columns of the sums of a block of `channels` input channels, tap row by tap row.
    fn columns(&self, channels: usize) -> usize {
        self.sizes.kernel[0] * self.tile.padded_columns(self.sizes.kernel[1] * channels)
    }

    pub(super) fn workspace(&self) -> Workspace {
        let [input, output] = self.sizes.channels;
        let rows = self.tile.padded_rows(output.min(64));
        Workspace {
            shared: self.copies().iter().sum(),
            of_each: rows * self.columns(input.min(self.tile.columns)),
            tasks: input.div_ceil(self.tile.columns) * output.div_ceil(self.tile.rows),
            ..Workspace::default()
        }
    }

    /// Adds to `weights`, `[C_out, C_in, k, k]`, and returns them.
    pub(super) fn run(
        &self,
        source: StoredFloats<'_>,
        gradient: StoredFloats<'_>,
        mut weights: Vec<f32>,
    ) -> Vec<f32> {
        let workspace = self.workspace();
        let mut copies: Vec<f32> = Vec::with_capacity(workspace.shared);
        let copies = &mut copies.spare_capacity_mut()[..workspace.shared];
        let (inputs, gradients) = copies.split_at_mut(self.copies()[0]);
        let [mut inputs, mut gradients] = [inputs, gradients].map(Copies::New);
        // The last block may have fewer channels.
        let last = (self.sizes.channels[0].max(1) - 1) % self.tile.columns + 1;
        let (mut tasks, positions) = charge(Account::Host, || {
            (self.tasks(&mut weights), [self.tile.columns, last].map(|channels| self.positions(channels)))
        });
        // Inside the pool, so that the calling thread waits for it once.
        rayon::scope(|_| {
            for first in (0..self.sizes.batch).step_by(self.images) {
                let images = first..(first + self.images).min(self.sizes.batch);
                let inputs = with_values!(source, source => self.copy_inputs(source, &images, &mut inputs));
                let gradients = with_values!(gradient, gradient => {
                    self.copy_gradients(gradient, &images, &mut gradients)
                });
                let pixels = images.len() * self.pixels();
                workers::each(tasks.iter_mut(), workspace, |task, sums| {
                    let is_last = self.channels(task).len() < self.tile.columns;
                    let positions = &positions[usize::from(is_last)][..pixels];
                    vectorised(CorrelateWork { correlate: self, inputs, gradients, positions, task, sums });
                });
            }
        });
        weights
    }

    fn channels(&self, task: &CorrelateTask<'_>) -> Range<usize> {
        task.channel..(task.channel + self.tile.columns).min(self.sizes.channels[0])
    }

    fn tasks<'a>(&self, weights: &'a mut [f32]) -> Vec<CorrelateTask<'a>> {
        let [input, output] = self.sizes.channels;
        let (rows, taps) = (self.rows_of_a_task(), self.sizes.taps());
        let blocks = input.div_ceil(self.tile.columns);
        let task = |index: usize| CorrelateTask {
            first: index / blocks * rows,
            rows: Vec::new(),
            channel: index % blocks * self.tile.columns,
        };
        let mut tasks: Vec<_> = (0..output.div_ceil(rows) * blocks).map(task).collect();
        for (row, elements) in weights.chunks_mut((input * taps).max(1)).enumerate() {
            for (block, elements) in elements.chunks_mut(self.tile.columns * taps).enumerate() {
                tasks[row / rows * blocks + block].rows.push(elements);
            }
        }
        tasks
    }

    /// The position of the first tap of each pixel of the gradient, in a block of `channels` channels of the copy.
    fn positions(&self, channels: usize) -> Vec<u32> {
        let [down, across] = &self.axes;
        let length = self.lines[1].length(across);
        let rows = (0..self.images).flat_map(|image| (0..down.grid).map(move |y| [image, y]));
        let positions = rows.flat_map(|[image, y]| {
            let row = image * self.plane + self.lines[0].pixel(down, y) * length;
            (0..across.grid).map(move |x| (row + self.lines[1].pixel(across, x)) * channels)
        });
        positions.map(|position| position as u32).collect()
    }

    /// Block by block of channels, pixel by pixel, the channels side by side.
    fn copy_inputs<'a, S: StoredFloat>(
        &self,
        source: &[S],
        images: &Range<usize>,
        copies: &'a mut Copies<'_>,
    ) -> &'a [f32] {
        let [input, _] = self.sizes.channels;
        let of_block = self.images * self.plane * self.tile.columns;
        let [down, across] = &self.axes;
        let runs = charge(Account::Host, || [self.lines[0].runs(down, 0), self.lines[1].runs(across, 0)]);
        copies.fill(of_block, |block, copy| {
            let first = block * self.tile.columns;
            let channels = first..(first + self.tile.columns).min(input);
            // Behind the last channel the copy has space for a tile's columns.
            for (image, copy) in images.clone().zip(copy.chunks_exact_mut(self.plane * channels.len().max(1)))
            {
                vectorised(CopyPlanes {
                    correlate: self,
                    source,
                    image,
                    channels: channels.clone(),
                    runs: &runs,
                    copy,
                });
            }
        })
    }

    /// Tile by tile of output channels, pixel by pixel, the channels side by side.
    fn copy_gradients<'a, G: StoredFloat>(
        &self,
        gradient: &[G],
        images: &Range<usize>,
        copies: &'a mut Copies<'_>,
    ) -> &'a [f32] {
        let (pixels, rows) = (self.pixels(), self.tile.rows);
        let depth = images.len() * pixels;
        copies.fill(self.images * pixels * rows, |tile, copy| {
            vectorised(CopyGradients {
                correlate: self,
                gradient,
                images: images.clone(),
                first: tile * rows,
                copy: &mut copy[..depth * rows],
            });
        })
    }
}

/// Memory for copies of some images after others.
enum Copies<'a> {
    New(&'a mut [MaybeUninit<f32>]),
    /// What no pixel is copied to is zero.
    Old(&'a mut [f32]),
}

impl Copies<'_> {
    /// Fills the memory in all threads, in pieces of `piece` elements. `fill` takes the index of a piece and the piece.
    fn fill(&mut self, piece: usize, fill: impl Fn(usize, &mut [f32]) + Sync) -> &[f32] {
        match std::mem::replace(self, Self::Old(&mut [])) {
            Self::New(memory) => *self = Self::Old(uninit::filled(memory, piece, fill)),
            Self::Old(memory) => {
                let pieces = memory.par_chunks_mut(piece.max(1)).enumerate();
                workers::for_each(pieces, |(index, piece)| fill(index, piece));
                *self = Self::Old(memory);
            }
        }
        match self {
            Self::Old(memory) => memory,
            Self::New(_) => &[],
        }
    }
}

/// Copies input channels of an image.
struct CopyPlanes<'a, S> {
    correlate: &'a Correlate,
    source: &'a [S],
    image: usize,
    channels: Range<usize>,
    runs: &'a [Vec<PixelRun>; 2],
    copy: &'a mut [f32],
}

impl<S: StoredFloat> SimdLoops for CopyPlanes<'_, S> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { correlate, source, image, channels, runs: [rows, runs], copy } = self;
        let ([height, width], width_of_copy) =
            (correlate.sizes.input, correlate.lines[1].length(&correlate.axes[1]));
        let count = channels.len();
        let channel = |index: usize| {
            let plane = image * correlate.sizes.channels[0] + channels.start + index;
            &source[plane * height * width..][..height * width]
        };
        for row in rows {
            for i in 0..row.length {
                let line = &mut copy[(row.at + i) * width_of_copy * count..][..width_of_copy * count];
                let start = (row.source + i * row.step) * width;
                for run in runs {
                    let from = start + run.source;
                    let to = &mut line[run.at * count..][..run.length * count];
                    let channel = |index: usize| &channel(index)[from..];
                    match run.step {
                        1 => interleave(count, channel, 0..run.length, to, count),
                        step => interleave_some(count, channel, (0..run.length).map(|i| i * step), to, count),
                    }
                }
            }
        }
    }
}

/// Copies a tile's output channels of the gradient of some images.
struct CopyGradients<'a, G> {
    correlate: &'a Correlate,
    gradient: &'a [G],
    images: Range<usize>,
    /// The first channel.
    first: usize,
    copy: &'a mut [f32],
}

impl<G: StoredFloat> SimdLoops for CopyGradients<'_, G> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { correlate, gradient, images, first, copy } = self;
        let ([_, output], pixels, rows) = (correlate.sizes.channels, correlate.pixels(), correlate.tile.rows);
        let count = rows.min(output - first);
        for (image, copy) in images.zip(copy.chunks_exact_mut((pixels * rows).max(1))) {
            let channel = |index: usize| &gradient[(image * output + first + index) * pixels..][..pixels];
            interleave(count, channel, 0..pixels, copy, rows);
        }
    }
}

/// A task, with the copies of both matrices for some images.
struct CorrelateWork<'a, 'b, 'c> {
    correlate: &'a Correlate,
    inputs: &'a [f32],
    gradients: &'a [f32],
    positions: &'a [u32],
    task: &'b mut CorrelateTask<'c>,
    sums: &'b mut [f32],
}

impl SimdLoops for CorrelateWork<'_, '_, '_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { correlate, inputs, gradients, positions, task, sums } = self;
        let channels = correlate.channels(task);
        let columns = correlate.columns(channels.len());
        let [kernel_height, kernel_width] = correlate.sizes.kernel;
        let tile = correlate.tile;
        let rows = tile.padded_rows(task.rows.len());
        let depth_of_tile = correlate.images * correlate.pixels() * tile.rows;
        let block = correlate.images * correlate.plane * channels.start;
        let (down, length) = (&correlate.axes[0], correlate.lines[1].length(&correlate.axes[1]));
        let of_row = tile.padded_columns(kernel_width * channels.len());
        for (index, positions) in positions.chunks(DEPTH).enumerate() {
            for y in 0..kernel_height {
                let row = block + correlate.lines[0].tap(down, y) * length * channels.len();
                for column in (0..of_row).step_by(tile.columns) {
                    let elements = &inputs[row + column..];
                    let inputs = ScatteredColumns { elements, runs: [0, tile.run()], offsets: positions };
                    for first in (0..rows).step_by(tile.rows) {
                        let left =
                            (task.first + first) / tile.rows * depth_of_tile + index * DEPTH * tile.rows;
                        let tiles = &gradients[left..][..positions.len() * tile.rows];
                        let factors = Factors::Scattered { tiles, columns: inputs };
                        let sums = &mut sums[first * columns + y * of_row + column..];
                        TileColumn {
                            factors,
                            next: &[],
                            ahead: None,
                            sums,
                            stride: columns,
                            add: index > 0,
                            then: None,
                        }
                        .compute();
                    }
                }
            }
        }
        let taps = kernel_height * kernel_width;
        for (row, sums) in task.rows.iter_mut().zip(sums.chunks(columns)) {
            for (y, sums) in sums.chunks(of_row).take(kernel_height).enumerate() {
                for (x, sums) in sums.chunks(channels.len()).take(kernel_width).enumerate() {
                    let to = row.iter_mut().skip(y * kernel_width + x).step_by(taps);
                    to.zip(sums).for_each(|(to, sum)| *to += sum);
                }
            }
        }
    }
}
