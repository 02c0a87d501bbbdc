//! Convolutions by the matrix unit of the processor: kernels times the inputs of each pixel. The inputs of some pixels at a time are packed
//! for the unit, in a core's cache.
//!
//! Every result is one sum in a fixed order, channel by channel and tap by tap, in parts of [`INNER`]: it does not depend on the number of
//! tasks.

mod grid;

use std::ops::Range;

use burn::tensor::bf16;
use burn_backend::DType;
use burn_flex::FlexTensor;
use oomph_bf16::{Element, Line, MatrixUnit, Rounded, SIDE, Vectors, lines};
use oomph_core::{Account, charge};

use super::{
    algorithm::{ConvAlgorithm, ConvFrame},
    product::{ConvProduct, ConvTask},
};
use crate::{
    custom_op::split,
    matrix_unit::{UnitElement, elements_around_lines, elements_of_lines, packed_by, parts_of, unit_for},
    stored_float::StoredFloats,
    tile::Tile,
    window::Axis,
};

use grid::{Grid, Piece, Run};

/// Inner indices that are multiplied at once: with the most rows of a task, their kernels take ¾ MiB of the second-level cache in 32 bits.
const INNER: usize = 256;

/// The least and the most rows of a task. Its pixels are packed once for all of them.
const ROWS: [usize; 2] = [128, 512];

/// About the most products of a block: they take a quarter of a MiB of the second-level cache.
const PRODUCTS: usize = 64 << 10;

/// The least pixels of a task, if there are as many images.
const PIXELS: usize = 256;

/// A convolution by the unit.
pub(super) struct ByUnit {
    unit: MatrixUnit,
    product: ConvProduct,
    /// Parts of an element.
    parts: usize,
    /// Images of a task.
    images: usize,
    grids: Vec<Grid>,
}

impl ByUnit {
    /// The convolution with these grids, of numbers of a format. `None` if the unit cannot multiply them, or if vectors are faster; `fewer` says
    /// whether these have an algorithm with fewer products.
    pub(super) fn where_it_pays(
        product: ConvProduct,
        grids: &[[Axis; 2]],
        dtype: DType,
        fewer: bool,
    ) -> Option<Self> {
        let unit = unit_for(dtype, dtype)?;
        let has_one_tap = product.kernel == [1; 2];
        // Products with fewer rows do not make up for packing their pixels.
        let least_rows = match (dtype, has_one_tap) {
            (DType::BF16, true) => 0,
            (DType::BF16, false) | (_, true) => 96,
            (_, false) if fewer => return None,
            (_, false) => 192,
        };
        (product.rows >= least_rows).then(|| Self::new(unit, product, grids, dtype))
    }

    fn new(unit: MatrixUnit, product: ConvProduct, grids: &[[Axis; 2]], dtype: DType) -> Self {
        let pixels = grids.iter().map(|[down, across]| down.grid * across.grid).max().unwrap_or(0);
        let images = PIXELS.div_ceil(pixels.max(1)).clamp(1, product.batch.max(1));
        let parts = parts_of(dtype);
        let mut weights = 0;
        let of_axes = |axes: &[Axis; 2]| {
            let grid = Grid::new(product, axes, weights);
            weights += lines(product.rows, grid.inner(product), parts);
            grid
        };
        let grids = charge(Account::Host, || grids.iter().map(of_axes).collect());
        Self { unit, product, parts, images, grids }
    }

    /// Strips of pixels that are multiplied at once.
    fn at_once(&self) -> usize {
        let strips = self.grids.iter().map(|grid| grid.strips(self.images)).max().unwrap_or(0);
        (PRODUCTS / (self.most_rows() * SIDE).max(1)).clamp(1, strips.max(1))
    }

    /// Rows of a task, at most.
    fn most_rows(&self) -> usize {
        self.product.rows.min(ROWS[1]).next_multiple_of(SIDE)
    }

    /// Elements of a task's products, and of its packed pixels.
    fn parts_of_workspace(&self) -> [usize; 2] {
        let inner = self.grids.iter().map(|grid| grid.inner(self.product)).max().unwrap_or(0).min(INNER);
        let columns = self.at_once() * SIDE;
        [columns * self.most_rows(), elements_around_lines(columns, inner, self.parts)]
    }

    /// Packs all weights: grid by grid, part by part of the inner indices, strip by strip of rows.
    fn pack_all<W: Element>(&self, weights: &[W], memory: Vec<Line>) -> Vec<Line> {
        const STEPS: usize = INNER / SIDE;
        let rows = self.product.rows;
        let (strips, of_step) = (rows.div_ceil(SIDE), lines(1, 1, W::PARTS));
        let steps = |grid: &Grid| grid.inner(self.product).div_ceil(SIDE);
        let count: usize = self.grids.iter().map(|grid| strips * steps(grid)).sum();
        packed_by(memory, count * of_step, of_step, |index, to| {
            let is_before = |grid: &&Grid| grid.weights <= index * of_step;
            // The first grid begins with the first step.
            let Some(grid) = self.grids.iter().rfind(is_before) else { return };
            let index = index - grid.weights / of_step;
            let (part, index) = (index / (strips * STEPS), index % (strips * STEPS));
            let of_part = STEPS.min(steps(grid) - part * STEPS);
            let [row, inner] = [index / of_part, part * STEPS + index % of_part].map(|at| at * SIDE);
            let [rows, inner] =
                [row..rows.min(row + SIDE), inner..grid.inner(self.product).min(inner + SIDE)];
            self.pack_weights(grid, weights, rows, inner, to);
        })
    }

    /// Packs some weights of at most 32 rows, of at most 32 inner indices.
    fn pack_weights<W: Element>(
        &self,
        grid: &Grid,
        weights: &[W],
        rows: Range<usize>,
        inner: Range<usize>,
        to: &mut [Line],
    ) {
        let [of_row, of_channel] = self.product.weights;
        let taps = grid.kernel.len();
        let all_inner = grid.inner(self.product);
        if of_channel == taps && grid.kernel.iter().copied().eq(0..taps) {
            // The weights of a row are contiguous over channels and taps.
            let all = Vectors::along(weights, all_inner, self.product.rows);
            return self.unit.pack_left(all.some_of(rows, inner), to);
        }
        if of_row == 1 && taps == 1 {
            // Those of a channel are contiguous over rows.
            let all = Vectors::across(weights, of_channel, self.product.rows, all_inner);
            return self.unit.pack_left(all.some_of(rows, inner), to);
        }
        let mut gathered = [[W::default(); SIDE]; SIDE];
        let count = inner.len();
        for (index, to) in inner.zip(&mut gathered) {
            let first = index / taps * of_channel + grid.kernel[index % taps];
            let from = weights[rows.start * of_row + first..].iter().step_by(of_row);
            to[..rows.len()].iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
        let all = Vectors::across(gathered.as_flattened(), SIDE, SIDE, SIDE);
        self.unit.pack_left(all.some_of(0..rows.len(), 0..count), to);
    }

    /// Packs some inner indices of strips, which read some runs for each tap.
    fn pack_pixels<E: UnitElement>(
        &self,
        source: &[E],
        first_image: usize,
        strips: &[Vec<Vec<Run>>],
        inner: Range<usize>,
        to: &mut [Line],
    ) {
        let ConvProduct { channels, source: [height, width], .. } = self.product;
        let plane = |run: &Run, channel: usize| {
            let image = first_image + run.image;
            &source[(image * channels + channel) * height * width..]
        };
        let mut gathered = [[E::ZERO; SIDE]; INNER];
        let of_strip = lines(1, inner.len(), E::PARTS);
        let (mut strips, mut to) = (strips, to);
        while let Some(taps) = strips.first() {
            let count = Run::strips_side_by_side(strips);
            let columns = match taps.as_slice() {
                [runs] if count > 0 => {
                    let pixels = &plane(&runs[0], inner.start)[runs[0].pixels.source..];
                    Vectors::across(pixels, height * width, count * SIDE, inner.len())
                }
                taps => {
                    for (index, to) in inner.clone().zip(&mut gathered) {
                        let (channel, runs) = (index / taps.len(), &taps[index % taps.len()]);
                        Run::gather(runs, |run| plane(run, channel), E::ZERO, to);
                    }
                    Vectors::across(gathered.as_flattened(), SIDE, SIDE, inner.len())
                }
            };
            let (packed, rest) = to.split_at_mut(count.max(1) * of_strip);
            self.unit.pack_right(columns, packed);
            (strips, to) = (&strips[count.max(1)..], rest);
        }
    }

    /// Writes the products of some strips to the target.
    #[inline(always)]
    fn put<E: UnitElement>(
        &self,
        grid: &Grid,
        products: &[f32],
        strips: Range<usize>,
        task: &mut ConvTask<'_, E>,
    ) {
        let of_strip = products.len() / strips.len().max(1);
        let pieces: Vec<_> = charge(Account::Host, || {
            let with_target = |piece: Piece| (piece, grid.target(&piece));
            let placed = |strip| grid.pieces(strip, task.images.len()).map(with_target).collect::<Vec<_>>();
            strips.map(placed).collect()
        });
        for row in 0..task.rows {
            for (pieces, products) in pieces.iter().zip(products.chunks_exact(of_strip.max(1))) {
                let products = &products[row * SIDE..][..SIDE];
                for (piece, target) in pieces {
                    task.write_every(piece.image, row, *target, &products[piece.at..][..piece.length]);
                }
            }
        }
    }
}

impl<E: UnitElement> ConvAlgorithm<E> for ByUnit {
    type Weight = Line;

    fn frame(&self) -> ConvFrame {
        let ConvProduct { rows, target, .. } = self.product;
        let inner = self.grids.iter().map(|grid| grid.inner(self.product));
        ConvFrame {
            product: self.product,
            tile: Tile { rows: SIDE, columns: SIDE },
            images: self.images,
            rows: ROWS,
            weight_elements: inner.map(|inner| elements_of_lines(rows, inner, self.parts)).sum(),
            elements_of_task: self.parts_of_workspace().iter().sum(),
            // If kernels are smaller than their stride, some pixels are in no grid.
            is_complete: self.grids.iter().map(Grid::pixels).sum::<usize>() == target[0] * target[1],
        }
    }

    fn pack(&self, weights: &FlexTensor, memory: Vec<Line>) -> Vec<Line> {
        match StoredFloats::of(weights) {
            StoredFloats::F32(wide) if self.parts == bf16::PARTS => self.pack_all(Rounded::all(wide), memory),
            _ => self.pack_all(E::values(weights), memory),
        }
    }

    #[inline(always)]
    fn compute(&self, weights: &[Line], source: &[E], task: &mut ConvTask<'_, E>, workspace: &mut [f32]) {
        let [products, memory] = split(workspace, self.parts_of_workspace());
        let (memory, rows) = (Line::within(memory), task.rows.next_multiple_of(SIDE));
        for grid in &self.grids {
            let (images, all) = (task.images.len(), grid.inner(self.product));
            let (count, at_once) = (grid.strips(images), self.at_once());
            for first in (0..count).step_by(at_once) {
                let strips = first..count.min(first + at_once);
                let products = &mut products[..strips.len() * SIDE * rows];
                let runs: Vec<_> =
                    charge(Account::Host, || strips.clone().map(|strip| grid.runs(strip, images)).collect());
                for first in (0..all).step_by(INNER) {
                    let inner = first..(first + INNER).min(all);
                    let of_strip = lines(1, inner.len(), E::PARTS);
                    let before = grid.weights
                        + first / INNER * lines(self.product.rows, INNER, E::PARTS)
                        + task.first_row / SIDE * of_strip;
                    let left = &weights[before..][..rows / SIDE * of_strip];
                    let right = &mut memory[..strips.len() * of_strip];
                    self.pack_pixels(source, task.first_image, &runs, inner.clone(), right);
                    self.unit.multiply::<E>([left, right], inner.len(), products, first > 0);
                }
                self.put(grid, products, strips, task);
            }
        }
    }
}
