//! The gradient of 3×3 kernels with fewer products: the points of the windows of patches times those of the output's gradient in them. Of 16
//! products each, summed over patches, the nine elements of a kernel are made.

use burn::tensor::bf16;
use burn_backend::DType;
use oomph_bf16::{Line, MatrixUnit, POINTS, SIDE, WinogradUnit};
use rayon::prelude::*;

use super::{
    has_shape,
    lines::{Lines, OF_REGISTER, PATCHES, neighbours},
    tile, units,
};
use crate::{
    conv::{
        pieces::{difference, lanes, sum},
        product::ConvSizes,
        winograd::{Blocks, PATCH, TAPS, Windows},
    },
    custom_op::{Workspace, split},
    flex_tensor::zeros,
    interleave::interleave,
    matrix_unit::OF_LINE,
    simd::{SimdLoops, vectorised},
    window::Axis,
    workers,
};

/// The sums over patches.
pub(in crate::conv) struct WinogradSums {
    unit: MatrixUnit,
    points: WinogradUnit,
    sizes: ConvSizes,
    blocks: Blocks,
}

impl WinogradSums {
    /// The gradient of a convolution with these axes, of numbers of a format. `None` if it cannot be computed so, or if all products of all
    /// pixels are faster.
    pub(in crate::conv) fn where_it_pays(sizes: ConvSizes, axes: &[Axis; 2], dtype: DType) -> Option<Self> {
        let (unit, points) = units(dtype)?;
        let patches = sizes.output.map(|pixels| pixels.div_ceil(PATCH));
        let blocks = Blocks::new(tile(), sizes.batch, patches, [PATCHES / 2, PATCHES]);
        let made = Self { unit, points, sizes, blocks };
        let can_be = has_shape(sizes.kernel, axes, sizes.channels) && blocks.columns() <= PATCHES;
        (can_be && made.pays()).then_some(made)
    }

    /// Estimates whether this is faster, in cycles of a processor that adds 32 products in one.
    fn pays(&self) -> bool {
        /// Each of two numbers of all channels is packed for each tap otherwise.
        const OF_CHANNEL: usize = 10;
        const OF_KERNEL: usize = 16;
        let ConvSizes { batch, channels: [input, output], output: [height, width], .. } = self.sizes;
        let (pixels, columns) = (batch * height * width, self.blocks.computed());
        let blocks = columns.div_ceil(self.blocks.columns());
        let products = POINTS * input * output * columns / SIDE;
        let beside = columns * (input + output) * OF_CHANNEL + blocks * input * output * OF_KERNEL;
        products + beside < TAPS * input * output * pixels / SIDE
    }

    /// Lines of a point of 32 channels: one for each channel and each 32 patches, and one more, so that points lie in different places of the
    /// cache.
    fn lines_of_point(&self) -> usize {
        self.blocks.columns() + 1
    }

    /// Lines of the points of 32 channels.
    fn lines_of_strip(&self) -> usize {
        POINTS * self.lines_of_point()
    }

    pub(in crate::conv) fn workspace(&self) -> Workspace {
        let [input, output] = self.sizes.channels;
        Workspace {
            shared: input / SIDE * self.lines_of_strip() * OF_LINE,
            of_each: self.parts_of_workspace().iter().sum(),
            tasks: output / SIDE,
            ..Workspace::default()
        }
    }

    /// Elements of the points of 32 outputs, and of their products with 32 inputs.
    fn parts_of_workspace(&self) -> [usize; 2] {
        [(self.lines_of_strip() + 1) * OF_LINE, POINTS * PRODUCTS]
    }

    /// The blocks of patches.
    fn windows(&self) -> impl Iterator<Item = Windows> {
        let Blocks { images, height, patches, .. } = self.blocks;
        let batch = self.sizes.batch;
        let rows = move |first_image| {
            (0..patches[0]).step_by(height).map(move |first_row| Windows {
                first_image,
                images: images.min(batch - first_image),
                first_row,
                height: height.min(patches[0] - first_row),
            })
        };
        (0..batch).step_by(images).flat_map(rows)
    }

    /// The gradient, `[C_out, C_in, k, k]`.
    pub(in crate::conv) fn run(&self, source: &[bf16], gradient: &[bf16]) -> Vec<f32> {
        let [input, output] = self.sizes.channels;
        let mut weights = zeros(output * input * TAPS);
        let mut features = vec![Line::ZERO; input / SIDE * self.lines_of_strip()];
        // Inside the pool, so that the calling thread waits for it once.
        rayon::scope(|_| {
            for windows in self.windows() {
                features.par_chunks_mut(self.lines_of_strip().max(1)).enumerate().for_each(|(strip, to)| {
                    vectorised(PackInputs { sums: self, windows: &windows, source, strip, to });
                });
                let tasks = weights.chunks_mut(SIDE * input * TAPS).enumerate();
                workers::each(tasks, self.workspace(), |(strip, weights), memory| {
                    let (sums, windows, features) = (self, &windows, &features);
                    vectorised(SumTask { sums, windows, gradient, strip, features, weights, memory });
                });
            }
        });
        weights
    }

    /// Inner indices of a block: its patches, in whole lines.
    fn inner(&self, windows: &Windows) -> usize {
        (windows.images * windows.height * self.blocks.patches[1]).next_multiple_of(SIDE)
    }
}

/// Packs the points of 32 inputs for a block.
struct PackInputs<'a> {
    sums: &'a WinogradSums,
    windows: &'a Windows,
    source: &'a [bf16],
    strip: usize,
    to: &'a mut [Line],
}

impl SimdLoops for PackInputs<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { sums, windows, source, strip, to } = self;
        let ConvSizes { channels: [channels, _], input: size, .. } = sums.sizes;
        let (pixels, inner) = (size[0] * size[1], sums.inner(windows));
        let neighbours = &neighbours(windows, sums.blocks.patches[1])[..inner / OF_REGISTER];
        let mut lines = Lines::<4>::zeros();
        for index in 0..SIDE {
            let channel = strip * SIDE + index;
            lines.copy(windows, 1, size, |image| &source[(image * channels + channel) * pixels..][..pixels]);
            sums.points.pack_windows(lines.all(), neighbours, &mut to[index..], sums.lines_of_point());
        }
        for point in to.chunks_mut(sums.lines_of_point()) {
            sums.points.turn(&mut point[..inner]);
        }
    }
}

/// Adds the products of 32 outputs in a block to the rows of their weights.
struct SumTask<'a> {
    sums: &'a WinogradSums,
    windows: &'a Windows,
    gradient: &'a [bf16],
    strip: usize,
    features: &'a [Line],
    weights: &'a mut [f32],
    memory: &'a mut [f32],
}

/// Products of a point, and a line of the cache.
const PRODUCTS: usize = SIDE * SIDE + OF_LINE;

impl SimdLoops for SumTask<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { sums, windows, gradient, strip, features, weights, memory } = self;
        let ConvSizes { channels: [inputs, channels], output: size, .. } = sums.sizes;
        let (pixels, inner, of_point) = (size[0] * size[1], sums.inner(windows), sums.lines_of_point());
        let [memory, products] = split(memory, sums.parts_of_workspace());
        let packed = &mut Line::within(memory)[..sums.lines_of_strip()];
        let mut lines = Lines::<2>::zeros();
        for index in 0..SIDE {
            let channel = strip * SIDE + index;
            lines.copy(windows, 0, size, |image| &gradient[(image * channels + channel) * pixels..][..pixels]);
            sums.points.pack_patches(lines.all(), inner / SIDE, &mut packed[index..], of_point);
        }
        for (features, column) in features.chunks_exact(packed.len()).zip((0..).step_by(SIDE)) {
            for (point, products) in products.chunks_exact_mut(PRODUCTS).enumerate() {
                let of_both = [&*packed, features].map(|lines| &lines[point * of_point..][..inner]);
                sums.unit.multiply::<bf16>(of_both, inner, &mut products[..SIDE * SIDE], false);
            }
            for (row, weights) in weights.chunks_exact_mut(inputs * TAPS).enumerate() {
                add_kernels(&products[row * SIDE..], &mut weights[column * TAPS..][..SIDE * TAPS]);
            }
        }
    }
}

/// Adds what 32 kernels of a row become of their products. From one point to the next there are [`PRODUCTS`].
#[inline(always)]
fn add_kernels(products: &[f32], weights: &mut [f32]) {
    const AT_ONCE: usize = 16;
    for (first, weights) in (0..SIDE).step_by(AT_ONCE).zip(weights.chunks_exact_mut(AT_ONCE * TAPS)) {
        let point = |point: usize| lanes::<f32, AT_ONCE>(products, point * PRODUCTS + first);
        let down = [0, 1, 2, 3].map(|column| taps([0, 1, 2, 3].map(|row| point(4 * row + column))));
        let across = [0, 1, 2].map(|row| taps(down.each_ref().map(|column| &column[row])));
        let mut kernels = [0.0; AT_ONCE * TAPS];
        interleave(TAPS, |tap| across.as_flattened()[tap].as_slice(), 0..AT_ONCE, &mut kernels, TAPS);
        weights.iter_mut().zip(kernels).for_each(|(weight, kernel)| *weight += kernel);
    }
}

/// Three elements of four points.
#[inline(always)]
fn taps<const COUNT: usize>([first, second, third, fourth]: [&[f32; COUNT]; 4]) -> [[f32; COUNT]; 3] {
    let (mut even, mut odd) = (sum(second, third), difference(second, third));
    even.iter_mut().chain(&mut odd).for_each(|number| *number *= 0.5);
    [sum(first, &even), odd, sum(&even, fourth)]
}
