//! 3×3 convolutions in bf16 with fewer products, as [`winograd`](super::winograd), by dot products of pairs: points are sums in 32 bits, and
//! are rounded to bf16 before they are multiplied.
//!
//! Rounding points adds to the rounding of a result, whose error becomes 2.6 times as large by norm: 0.4 % instead of 0.17 % of
//! uncorrelated numbers.
//!
//! Every result is one sum in a fixed order. It does not depend on the number of threads, nor on the batch as long as this algorithm is
//! chosen.

mod kernels;
mod lines;
mod sums;

use burn::tensor::bf16;
use burn_backend::DType;
use burn_flex::FlexTensor;
use oomph_bf16::{Line, MatrixUnit, POINTS, SIDE, WinogradUnit};

use super::{
    algorithm::{ConvAlgorithm, ConvFrame},
    product::{ConvProduct, ConvTask},
    winograd::{Blocks, PATCH, TAPS, Windows, put_pixels},
};
use crate::{
    custom_op::split,
    matrix_unit::{OF_LINE, packed_by, unit_for},
    simd::vectorised,
    stored_float::StoredFloats,
    tile::Tile,
    window::Axis,
};

use kernels::KernelPacking;
use lines::{Lines, OF_REGISTER, PATCHES, neighbours};

pub(super) use sums::WinogradSums;

/// The least and the most rows of a task. The points of its windows are made once for all of them.
const ROWS: [usize; 2] = [128, 512];

/// Bytes of a block's points and of the products of 32 rows: they stay in the second-level cache.
const BYTES: usize = 768 << 10;

/// A 3×3 convolution by minimal filters and the processor's unit.
pub(super) struct WinogradByUnit {
    unit: MatrixUnit,
    points: WinogradUnit,
    product: ConvProduct,
    /// Whether kernels are rotated by 180°: backward, their last element belongs to the first pixel.
    turned: bool,
    blocks: Blocks,
}

/// The unit and what makes its points, if it multiplies them faster than the products of all taps.
fn units(dtype: DType) -> Option<(MatrixUnit, WinogradUnit)> {
    let unit = unit_for(dtype, dtype).filter(|_| dtype == DType::BF16)?;
    Some((unit, unit.for_winograd()?))
}

/// Whether a pixel reads those around it, and all channels are those of whole strips.
fn has_shape(kernel: [usize; 2], axes: &[Axis; 2], channels: [usize; 2]) -> bool {
    kernel == [3; 2]
        && axes.iter().all(Axis::reads_three_around)
        && channels.iter().all(|channels| channels.is_multiple_of(SIDE))
}

impl WinogradByUnit {
    /// The algorithm for a convolution with these `grids`, of numbers of a format. `None` if it cannot compute that, or if another one is
    /// faster.
    pub(super) fn where_it_pays(product: ConvProduct, grids: &[[Axis; 2]], dtype: DType) -> Option<Self> {
        let [axes] = grids else { return None };
        let (unit, points) = units(dtype)?;
        if !has_shape(product.kernel, axes, [product.channels, product.rows]) {
            return None;
        }
        let made = Self::new(unit, points, product, axes);
        (made.blocks.columns() <= PATCHES && made.pays()).then_some(made)
    }

    fn new(unit: MatrixUnit, points: WinogradUnit, product: ConvProduct, axes: &[Axis; 2]) -> Self {
        let patches = product.target.map(|pixels| pixels.div_ceil(PATCH));
        let of_patch = POINTS * (product.channels * size_of::<bf16>() + SIDE * size_of::<f32>());
        let most = (BYTES / of_patch.max(1) / SIDE * SIDE).clamp(SIDE, PATCHES / 2);
        let blocks =
            Blocks::new(tile(), product.batch, patches, [most / 2, most], product.rows.div_ceil(ROWS[0]));
        let turned = !axes[0].taps.is_sorted();
        Self { unit, points, product, turned, blocks }
    }

    /// Estimates whether the algorithm is faster than the products of all taps, in cycles of a processor that adds 32 of them in one.
    fn pays(&self) -> bool {
        const OF_CHANNEL: usize = 8;
        const OF_ROW: usize = 8;
        const OF_KERNEL: usize = 16;
        let ConvProduct { batch, channels, rows, target, .. } = self.product;
        let (pixels, columns) = (batch * target[0] * target[1], self.blocks.computed());
        let parts = rows.div_ceil(ROWS[1]);
        let products = POINTS * channels * rows * columns / SIDE;
        let beside = columns * (channels * parts * OF_CHANNEL + rows * OF_ROW) + channels * rows * OF_KERNEL;
        products + beside < TAPS * channels * rows * pixels / SIDE
    }

    /// Strips of patches of a block, at most.
    fn strips(&self) -> usize {
        self.blocks.columns() / SIDE
    }

    /// Lines from a point of a block to the next one: one more than those of its strips, so that points lie in different places of the cache.
    fn lines_of_point(&self) -> usize {
        self.strips() * self.product.channels + 1
    }

    /// Products from a point of a block to the next one.
    fn products_of_point(&self) -> usize {
        self.strips() * SIDE * SIDE + OF_LINE
    }

    /// Elements of a task's points, of its products, and of the pixels of two lines.
    fn parts_of_workspace(&self) -> [usize; 3] {
        [
            (POINTS * self.lines_of_point() + 1) * OF_LINE,
            POINTS * self.products_of_point(),
            PATCH * PATCH * self.blocks.columns(),
        ]
    }

    /// Packs the points of a block of windows, for all channels.
    #[inline(always)]
    fn pack_points(&self, windows: &Windows, source: &[bf16], to: &mut [Line]) {
        let ConvProduct { channels, source: size, .. } = self.product;
        let pixels = size[0] * size[1];
        let count = self.blocks.patches_of(windows).div_ceil(OF_REGISTER);
        let neighbours = &neighbours(windows, self.blocks.patches[1])[..count];
        let mut lines = [Lines::<4>::zeros(), Lines::zeros()];
        let apart = [channels, self.lines_of_point()];
        for first in (0..channels).step_by(2) {
            for (channel, lines) in (first..).zip(&mut lines) {
                let plane = |image: usize| &source[(image * channels + channel) * pixels..][..pixels];
                lines.copy(windows, 1, size, plane);
            }
            let [even, odd] = &lines;
            let line = first / SIDE * SIDE + first % SIDE / 2;
            self.points.pack_channels([even.all(), odd.all()], neighbours, &mut to[line..], apart);
        }
    }

    /// Writes the pixels of a row, by the products of a block.
    #[inline(always)]
    fn put(
        &self,
        windows: &Windows,
        row: usize,
        products: &[f32],
        pixels: &mut [f32],
        task: &mut ConvTask<'_, bf16>,
    ) {
        let count = self.blocks.patches_of(windows).next_multiple_of(OF_REGISTER);
        let (above, below) = pixels[..2 * PATCH * count].split_at_mut(PATCH * count);
        let pairs = [&mut *above, &mut *below].map(|line| line.as_chunks_mut().0);
        self.points.put(&products[row % SIDE * SIDE..], self.products_of_point(), pairs);
        put_pixels(windows, row, [above, below], self.product.target, task);
    }
}

/// A block of products of the unit.
fn tile() -> Tile {
    Tile { rows: SIDE, columns: SIDE }
}

impl ConvAlgorithm<bf16> for WinogradByUnit {
    type Weight = Line;

    fn frame(&self) -> ConvFrame {
        ConvFrame {
            product: self.product,
            tile: tile(),
            images: self.blocks.images,
            rows: ROWS,
            weight_elements: POINTS * self.product.channels * self.product.rows * OF_LINE / SIDE,
            elements_of_task: self.parts_of_workspace().iter().sum(),
            is_complete: true,
        }
    }

    /// Strip by strip of rows, and point by point in them.
    fn pack(&self, weights: &FlexTensor, memory: Vec<Line>) -> Vec<Line> {
        let weights = StoredFloats::of(weights);
        let ConvProduct { channels, rows, weights: apart, .. } = self.product;
        let (unit, turned) = (self.unit, self.turned);
        let of_strip = POINTS * channels;
        packed_by(memory, rows / SIDE * of_strip, of_strip, |strip, to| {
            let rows = strip * SIDE..(strip + 1) * SIDE;
            vectorised(KernelPacking { unit, weights, apart, channels, rows, turned, to });
        })
    }

    #[inline(always)]
    fn compute(
        &self,
        weights: &[Line],
        source: &[bf16],
        task: &mut ConvTask<'_, bf16>,
        workspace: &mut [f32],
    ) {
        let channels = self.product.channels;
        let [points, products, pixels] = split(workspace, self.parts_of_workspace());
        let points = Line::within(points);
        let (of_lines, of_products) = (self.lines_of_point(), self.products_of_point());
        let weights = &weights[task.first_row * POINTS * channels / SIDE..];
        let images = task.first_image..task.first_image + task.images.len();
        for windows in self.blocks.windows(images) {
            self.pack_points(&windows, source, points);
            let strips = self.blocks.patches_of(&windows).div_ceil(SIDE);
            for (strip, left) in (0..task.rows / SIDE).zip(weights.chunks_exact(POINTS * channels)) {
                for (point, left) in left.chunks_exact(channels).enumerate() {
                    let right = &points[point * of_lines..][..strips * channels];
                    let products = &mut products[point * of_products..][..strips * SIDE * SIDE];
                    self.unit.multiply::<bf16>([left, right], channels, products, false);
                }
                for row in strip * SIDE..(strip + 1) * SIDE {
                    self.put(&windows, row, products, pixels, task);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Tensor;

    use super::*;
    use crate::{
        conv::{Slide, conv2d, conv2d_backward, product::ConvSizes},
        kernels::Kernels,
        truth::{distance, stored, values},
    };

    fn sizes(batch: usize, channels: [usize; 2], size: [usize; 2]) -> ConvSizes {
        ConvSizes { batch, channels, input: size, output: size, kernel: [3; 2] }
    }

    /// Whether each of forward and the gradients of input and kernels is computed by fewer products.
    fn pays(sizes: ConvSizes) -> [bool; 3] {
        let axes = sizes.input.map(|size| Axis::forward(size, 3, 1, 1));
        let back = crate::window::backward_grids(&axes);
        [
            WinogradByUnit::where_it_pays(
                ConvProduct::forward(sizes),
                std::slice::from_ref(&axes),
                DType::BF16,
            )
            .is_some(),
            WinogradByUnit::where_it_pays(ConvProduct::backward(sizes), &back, DType::BF16).is_some(),
            WinogradSums::where_it_pays(sizes, &axes, DType::BF16).is_some(),
        ]
    }

    fn is_there() -> bool {
        let is_there = units(DType::BF16).is_some();
        if !is_there {
            println!("skipped: this processor has no dot products of bf16, or tiles");
        }
        is_there
    }

    #[test]
    fn it_is_chosen_where_it_pays() {
        if !is_there() {
            return;
        }
        // Those of ResNets.
        for (batch, channels, size) in
            [(32, 64, 32), (32, 512, 4), (8, 64, 56), (8, 128, 28), (8, 256, 14), (8, 512, 7)]
        {
            assert_eq!(pays(sizes(batch, [channels; 2], [size; 2])), [true; 3], "{channels} {size}");
        }
        // Channels of no whole strips, few pixels for many kernels, and a row of patches beyond the cache.
        assert_eq!(pays(sizes(8, [48, 64], [28; 2])), [false; 3]);
        assert_eq!(pays(sizes(1, [512; 2], [4; 2])), [false; 3]);
        assert_eq!(pays(sizes(8, [64; 2], [4, 4096])), [false; 3]);
    }

    /// The output and both gradients of a convolution of bf16, in a format.
    fn made(sizes: ConvSizes, kernels: Kernels, dtype: DType) -> [Vec<f64>; 3] {
        let ConvSizes { batch, channels: [input, output], input: [height, width], .. } = sizes;
        let tensor = |name, shape: [usize; 4]| -> Tensor<4> {
            crate::cast(stored(name, shape, DType::BF16), dtype, Kernels::Composed)
        };
        let x = tensor("input", [batch, input, height, width]);
        let w = tensor("weight", [output, input, 3, 3]);
        let g = tensor("gradient", [batch, output, height, width]);
        let slide = Slide { stride: 1, padding: 1 };
        let forward = values(conv2d(x.clone(), w.clone(), slide, kernels));
        let gradients = conv2d_backward(|| x.clone(), x.dims(), w, g, slide, [true; 2], kernels);
        let [input, weight] =
            [gradients.input, gradients.weight].map(|made| made.map(values).unwrap_or_default());
        [forward, input, weight]
    }

    #[test]
    fn the_error_by_norm_is_that_of_rounded_points() {
        if !is_there() {
            return;
        }
        for sizes in [
            sizes(8, [64, 96], [14, 13]),
            sizes(2, [32, 64], [37, 50]),
            sizes(32, [256, 256], [4, 4]),
            sizes(9, [192, 224], [7, 7]),
        ] {
            assert_eq!(pays(sizes), [true; 3], "{sizes:?}");
            let expected = made(sizes, Kernels::Composed, DType::F32);
            let found = made(sizes, Kernels::Cpu, DType::BF16);
            for (found, expected) in found.iter().zip(&expected) {
                let error = distance(found, expected);
                assert!(error < 0.0048, "{error} {sizes:?}");
            }
        }
    }

    #[test]
    fn the_bits_do_not_depend_on_the_number_of_threads() {
        if !is_there() {
            return;
        }
        for sizes in [sizes(9, [192, 224], [7, 7]), sizes(2, [64, 64], [37, 50])] {
            let by = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| made(sizes, Kernels::Cpu, DType::BF16))
            };
            assert!(by(1) == by(3), "{sizes:?}");
        }
    }
}
