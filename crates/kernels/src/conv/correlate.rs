//! The gradient of the kernels of a convolution: for each element of a kernel, the sum over all pixels of its input times the
//! output's gradient.
//!
//! As a matrix product, its inner index is the pixel. The gradient is put in tiles with the output channels side by side, or is read
//! where it is, and the input is copied with its channels side by side. For 1×1 kernels with more input than output channels both
//! change places, so that the smaller one is copied. The inputs of a pixel and a tap are read in place from that copy,
//! so that the matrix of all inputs of all pixels never exists.
//!
//! Every result is one sum in a fixed order, pixel by pixel, in parts of some pixels and of some images: it does not depend on
//! the number of tasks.

use std::{mem::MaybeUninit, ops::Range};

use burn_backend::DType;
use oomph_core::{Account, charge};
use rayon::prelude::*;

use super::product::ConvSizes;
use crate::{
    custom_op::Workspace,
    interleave::{interleave, interleave_some},
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, with_values},
    tile::{Factors, MOST_COLUMNS, ScatteredColumns, SeparateRows, Start, Tile, TileColumn},
    uninit,
    window::{Axis, Line, PixelRun},
    workers,
};

/// Elements of a tile's columns that are multiplied at once: with as many pixels of its rows they fit into the first-level cache.
const ELEMENTS: usize = 4 << 10;

/// Pixels of separate rows that are multiplied at once, at most.
const LONGEST: usize = 256;

/// Pixels of an image from which on its gradient is not put in tiles: then a tile has many products for each sum that it writes.
const LONG: usize = 40;

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
    /// Whether the gradient is put in tiles. Else its rows are long enough to be read where they are.
    has_tiles: bool,
    /// Whether input and output change places: `sizes` are those of the transposed kernels.
    transposed: bool,
}

/// Some rows of the product, for one task: output channels.
struct CorrelateTask<'a> {
    rows: Range<usize>,
    /// The elements of the task's input channels, of each row. Of transposed kernels it is the other way round.
    weights: Vec<&'a mut [f32]>,
    /// The first of the input channels.
    channel: usize,
}

impl Correlate {
    /// `formats` are those of the input and of the output's gradient.
    pub(super) fn new(sizes: ConvSizes, axes: &[Axis; 2], formats: [DType; 2]) -> Self {
        let tile = Tile::for_scattered();
        let [down, across] = axes;
        let lines = [Line::by_tap(down, down.grid), Line::ByPixel { pixels: across.grid }];
        let plane = lines[0].length(down) * lines[1].length(across);
        let pixels = sizes.output[0] * sizes.output[1];
        let can_be_separate = |channels: usize, format: DType| {
            format == DType::F32 && channels == tile.padded_rows(channels) && pixels >= LONG
        };
        let [input, output] = sizes.channels;
        let is_of_pixels = sizes.kernel == [1; 2] && sizes.input == sizes.output;
        let transposed = is_of_pixels && input > output && can_be_separate(input, formats[0]);
        let sizes = if transposed { ConvSizes { channels: [output, input], ..sizes } } else { sizes };
        let has_tiles = !transposed && !can_be_separate(output, formats[1]);
        let [input, output] = sizes.channels;
        let of_image = input * plane + if has_tiles { tile.padded_rows(output) * pixels } else { 0 };
        let images = (COPIES / of_image.max(1)).clamp(1, sizes.batch.max(1));
        // The parts are as even as possible.
        let images = sizes.batch.div_ceil(sizes.batch.div_ceil(images).max(1)).max(1);
        Self { tile, sizes, axes: axes.clone(), lines, plane, images, has_tiles, transposed }
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
            if self.has_tiles { self.images * self.pixels() * self.tile.padded_rows(output) } else { 0 },
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
        let [source, gradient] = if self.transposed { [gradient, source] } else { [source, gradient] };
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
                let gradients = match gradient {
                    StoredFloats::F32(values) if !self.has_tiles => Gradients::Rows { values, first },
                    _ => Gradients::Tiles(with_values!(gradient, gradient => {
                        self.copy_gradients(gradient, &images, &mut gradients)
                    })),
                };
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
        let task = |index: usize| {
            let first = index / blocks * rows;
            CorrelateTask {
                rows: first..(first + rows).min(output),
                weights: Vec::new(),
                channel: index % blocks * self.tile.columns,
            }
        };
        let mut tasks: Vec<_> = (0..output.div_ceil(rows) * blocks).map(task).collect();
        let [of_row, of_piece] = match self.transposed {
            true => [output, rows],
            false => [input * taps, self.tile.columns * taps],
        };
        for (row, elements) in weights.chunks_mut(of_row.max(1)).enumerate() {
            for (piece, elements) in elements.chunks_mut(of_piece).enumerate() {
                let task = match self.transposed {
                    true => piece * blocks + row / self.tile.columns,
                    false => row / rows * blocks + piece,
                };
                tasks[task].weights.push(elements);
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

    /// The positions that are multiplied at once, each with the index of its first pixel. Those of separate rows are of one image.
    #[inline(always)]
    fn stretches<'a>(&self, positions: &'a [u32]) -> impl Iterator<Item = (usize, &'a [u32])> {
        let of_part = if self.has_tiles { positions.len() } else { self.pixels() }.max(1);
        // The stretches of an image are as even as possible.
        let length = if self.has_tiles {
            ELEMENTS / self.tile.columns
        } else {
            of_part.div_ceil(of_part.div_ceil(LONGEST))
        };
        let parts = positions.chunks(of_part).enumerate();
        parts.flat_map(move |(part, positions)| {
            let stretches = positions.chunks(length).enumerate();
            stretches.map(move |(index, positions)| (part * of_part + index * length, positions))
        })
    }

    /// A tile's rows of the gradient, from the pixel `at` on, and columns.
    #[inline(always)]
    fn factors<'a>(
        &self,
        gradients: Gradients<'a>,
        row: usize,
        at: usize,
        columns: ScatteredColumns<'a>,
    ) -> Factors<'a> {
        let (rows, pixels) = (self.tile.rows, self.pixels());
        match gradients {
            Gradients::Tiles(tiles) => {
                let left = row / rows * (self.images * pixels * rows) + at * rows;
                let tiles = &tiles[left..][..columns.offsets.len() * rows];
                Factors::Scattered { tiles, columns }
            }
            Gradients::Rows { values, first } => {
                let image = first + at / pixels;
                let left = (image * self.sizes.channels[1] + row) * pixels + at % pixels;
                let rows = SeparateRows { elements: &values[left..], count: rows, stride: pixels };
                Factors::Separate { rows, columns }
            }
        }
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

/// The gradient of some images.
#[derive(Clone, Copy)]
enum Gradients<'a> {
    /// In tiles.
    Tiles(&'a [f32]),
    /// The whole gradient, and the first of these images.
    Rows { values: &'a [f32], first: usize },
}

/// A task, with the copies of both matrices for some images.
struct CorrelateWork<'a, 'b, 'c> {
    correlate: &'a Correlate,
    inputs: &'a [f32],
    gradients: Gradients<'a>,
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
        let block = correlate.images * correlate.plane * channels.start;
        let (down, length) = (&correlate.axes[0], correlate.lines[1].length(&correlate.axes[1]));
        let of_row = tile.padded_columns(kernel_width * channels.len());
        for (at, positions) in correlate.stretches(positions) {
            for y in 0..kernel_height {
                let row = block + correlate.lines[0].tap(down, y) * length * channels.len();
                for column in (0..of_row).step_by(tile.columns) {
                    let elements = &inputs[row + column..];
                    let inputs = ScatteredColumns { elements, runs: [0, tile.run()], offsets: positions };
                    for first in (0..rows).step_by(tile.rows) {
                        let factors = correlate.factors(gradients, task.rows.start + first, at, inputs);
                        let sums = &mut sums[first * columns + y * of_row + column..];
                        TileColumn {
                            factors,
                            next: &[],
                            ahead: None,
                            sums,
                            stride: columns,
                            start: Start::adding(at > 0),
                            then: None,
                        }
                        .compute();
                    }
                }
            }
        }
        if correlate.transposed {
            return add_transposed(&mut task.weights, sums, columns);
        }
        let (taps, mut ordered) = (kernel_height * kernel_width, [0.0; ORDERED]);
        for (row, sums) in task.weights.iter_mut().zip(sums.chunks(columns)) {
            let of_tap =
                |tap: usize| &sums[tap / kernel_width * of_row + tap % kernel_width * channels.len()..];
            add_taps(row, taps, channels.len(), of_tap, &mut ordered);
        }
    }
}

/// Adds each column of the sums, of which a row has so many, to the weights of its output channel.
#[inline(always)]
fn add_transposed(weights: &mut [&mut [f32]], sums: &[f32], columns: usize) {
    /// Rows that are transposed at once.
    const ROWS: usize = 8;
    let mut ordered = [0.0; MOST_COLUMNS * ROWS];
    let rows = weights.first().map_or(0, |row| row.len());
    for first in (0..rows).step_by(ROWS) {
        let count = ROWS.min(rows - first);
        let row = |index: usize| &sums[(first + index) * columns..][..columns];
        interleave(count, row, 0..weights.len(), &mut ordered, ROWS);
        for (weights, sums) in weights.iter_mut().zip(ordered.chunks_exact(ROWS)) {
            weights[first..][..count].iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
        }
    }
}

/// Elements that are put in the order of kernels at once.
const ORDERED: usize = 512;

/// Adds the sums of each tap, which are side by side, to the kernels of a row. Those of several taps are put in the kernels' order first.
#[inline(always)]
fn add_taps<'a>(
    row: &mut [f32],
    taps: usize,
    channels: usize,
    of_tap: impl Fn(usize) -> &'a [f32],
    ordered: &mut [f32; ORDERED],
) {
    if taps == 1 {
        return row.iter_mut().zip(of_tap(0)).for_each(|(to, sum)| *to += sum);
    }
    let at_once = (ORDERED / taps.max(1)).max(1);
    for (index, row) in row.chunks_mut(at_once * taps).enumerate() {
        let first = index * at_once;
        match ordered.get_mut(..row.len()) {
            Some(ordered) => {
                interleave(taps, &of_tap, first..channels.min(first + at_once), ordered, taps);
                row.iter_mut().zip(&*ordered).for_each(|(to, sum)| *to += sum);
            }
            // A kernel with more taps than that.
            None => {
                for (tap, to) in row.iter_mut().enumerate() {
                    *to += of_tap(tap)[first];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gradient by its definition, of whole numbers: sums are exact.
    fn defined(sizes: ConvSizes, stride: usize, source: &[f32], gradient: &[f32]) -> Vec<f32> {
        let ([input, output], [height, width]) = (sizes.channels, sizes.input);
        let ([down, across], side) = (sizes.output, sizes.kernel[0]);
        let pixel = |image: usize, channel: usize, y: usize, x: usize| {
            let [y, x] = [y, x].map(|at| at.checked_sub(side / 2));
            let inside = y.filter(|y| *y < height).zip(x.filter(|x| *x < width));
            inside.map_or(0.0, |(y, x)| source[((image * input + channel) * height + y) * width + x])
        };
        let mut weights = vec![0.0; output * input * side * side];
        for (index, weight) in weights.iter_mut().enumerate() {
            let [x, y] = [index % side, index / side % side];
            let [from, to] = [index / (side * side) % input, index / (side * side) / input];
            for at in 0..sizes.batch * down * across {
                let [image, row, column] = [at / (down * across), at / across % down, at % across];
                let of_output = gradient[((image * output + to) * down + row) * across + column];
                *weight += of_output * pixel(image, from, row * stride + y, column * stride + x);
            }
        }
        weights
    }

    #[test]
    fn gradients_are_sums_over_pixels_whichever_matrix_is_copied() {
        // Batch, channels, side of the images, of the kernel, stride; whether the gradient is put in tiles, whether both change places.
        // Tiles have 6 or 8 rows.
        let cases = [
            ([5, 33, 24, 7, 1, 1], [false, false]),
            ([5, 48, 9, 7, 1, 1], [false, true]),
            ([3, 48, 24, 8, 1, 1], [false, true]),
            ([3, 24, 48, 8, 1, 1], [false, false]),
            ([3, 37, 7, 8, 1, 1], [true, false]),
            ([2, 48, 24, 14, 1, 2], [false, false]),
            ([7, 5, 24, 7, 3, 1], [false, false]),
            ([7, 37, 9, 7, 3, 1], [true, false]),
            ([4, 7, 24, 17, 3, 2], [false, false]),
            ([9, 48, 24, 4, 1, 1], [true, false]),
            ([1, 70, 72, 20, 1, 1], [false, false]),
        ];
        for ([batch, from, to, side, kernel, stride], expected) in cases {
            let axis = Axis::forward(side, kernel, stride, kernel / 2);
            let sizes = ConvSizes {
                batch,
                channels: [from, to],
                input: [side; 2],
                output: [axis.grid; 2],
                kernel: [kernel; 2],
            };
            let value = |at: usize| (at * 37 % 11) as f32 - 5.0;
            let source: Vec<f32> = (0..batch * from * side * side).map(value).collect();
            let gradient: Vec<f32> =
                (0..batch * to * axis.grid * axis.grid).map(|at| value(at / 3 + at)).collect();
            let correlate = Correlate::new(sizes, &[axis.clone(), axis], [DType::F32; 2]);
            assert_eq!([correlate.has_tiles, correlate.transposed], expected, "{sizes:?}");
            let found = correlate.run(
                StoredFloats::F32(&source),
                StoredFloats::F32(&gradient),
                vec![1.0; to * from * kernel * kernel],
            );
            let defined = defined(sizes, stride, &source, &gradient);
            assert!(found.iter().zip(&defined).all(|(found, sum)| *found == sum + 1.0), "{sizes:?}");
        }
    }
}
