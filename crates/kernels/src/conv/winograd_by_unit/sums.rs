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
        product::ConvSizes,
        winograd::{Blocks, PATCH, TAPS, TASKS, Windows, add_kernels},
    },
    custom_op::{Workspace, split},
    matrix_unit::OF_LINE,
    simd::{SimdLoops, vectorised},
    uninit,
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
        if !has_shape(sizes.kernel, axes, sizes.channels) {
            return None;
        }
        let patches = sizes.output.map(|pixels| pixels.div_ceil(PATCH));
        let blocks = Blocks::new(tile(), sizes.batch, patches, [PATCHES / 2, PATCHES], TASKS);
        let made = Self { unit, points, sizes, blocks };
        (blocks.columns() <= PATCHES && made.pays()).then_some(made)
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

    /// The gradient, `[C_out, C_in, k, k]`.
    pub(in crate::conv) fn run(&self, source: &[bf16], gradient: &[bf16]) -> Vec<f32> {
        let [input, output] = self.sizes.channels;
        let mut features = vec![Line::ZERO; input / SIDE * self.lines_of_strip()];
        let (count, of_task) = (output * input * TAPS, SIDE * input * TAPS);
        let mut blocks = self.blocks.windows(0..self.sizes.batch);
        // Inside the pool, so that the calling thread waits for it once.
        rayon::scope(|_| {
            // Each thread zeroes what it adds to next, so that it lies in its cache.
            let (mut weights, ()) = uninit::made(count, |weights| {
                let weights = weights.parts(of_task).map(|weights| move || weights.zeroed());
                self.add_block(blocks.next(), source, gradient, &mut features, weights);
            });
            for windows in blocks {
                let weights = weights.chunks_mut(of_task).map(|weights| move || weights);
                self.add_block(Some(windows), source, gradient, &mut features, weights);
            }
            weights
        })
    }

    /// Adds the products of a block, if there is one, to the weights that each of `weights` gives for 32 outputs.
    fn add_block<'a, W: FnOnce() -> &'a mut [f32]>(
        &self,
        windows: Option<Windows>,
        source: &[bf16],
        gradient: &[bf16],
        features: &mut [Line],
        weights: impl Iterator<Item = W> + Send,
    ) {
        if let Some(windows) = &windows {
            let strips = features.par_chunks_mut(self.lines_of_strip()).enumerate();
            workers::for_each(strips, |(strip, to)| {
                vectorised(PackInputs { sums: self, windows, source, strip, to });
            });
        }
        workers::each(weights.enumerate(), self.workspace(), |(strip, weights), memory| {
            let (sums, weights, features) = (self, weights(), &*features);
            if let Some(windows) = &windows {
                vectorised(SumTask { sums, windows, gradient, strip, features, weights, memory });
            }
        });
    }

    /// Inner indices of a block: its patches, in whole lines.
    fn inner(&self, windows: &Windows) -> usize {
        self.blocks.patches_of(windows).next_multiple_of(SIDE)
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
            lines
                .copy(windows, 0, size, |image| &gradient[(image * channels + channel) * pixels..][..pixels]);
            sums.points.pack_patches(lines.all(), inner / SIDE, &mut packed[index..], of_point);
        }
        for (features, column) in features.chunks_exact(packed.len()).zip((0..).step_by(SIDE)) {
            for (point, products) in products.chunks_exact_mut(PRODUCTS).enumerate() {
                let of_both = [&*packed, features].map(|lines| &lines[point * of_point..][..inner]);
                sums.unit.multiply::<bf16>(of_both, inner, &mut products[..SIDE * SIDE], false);
            }
            for (row, weights) in weights.chunks_exact_mut(inputs * TAPS).enumerate() {
                let weights = &mut weights[column * TAPS..][..SIDE * TAPS];
                add_kernels::<16>(&products[row * SIDE..], PRODUCTS, weights);
            }
        }
    }
}
