//! The gradient of 3×3 kernels with fewer products, as forward: the points of the windows of patches times those of the output's
//! gradient in these patches. Of 16 products of each kernel, summed over patches, its nine elements are made.
//!
//! As matrix products, one for each point, the inner index is the patch. Points of the output's gradient are put in tiles, with channels
//! side by side, and those of the input in panels.
//!
//! Every result is one sum in a fixed order: it does not depend on the number of threads.

mod packing;

use oomph_core::{Account, charge};

use super::{
    blocking::{LINE, PATCH, POINTS, TAPS},
    blocks::{Blocks, TASKS, Windows},
    kernels::add_kernels,
};
use crate::{
    conv::product::ConvSizes,
    custom_op::Workspace,
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloats, with_values},
    tile::{Factors, Start, Tile, TileColumn},
    uninit::left_over,
    window::Axis,
    workers,
};

use packing::{PackPanel, PackStrip, Packing};

/// The least and the most patches of a block. Of a panel's channels, a point of so many fits into the first-level cache.
const PATCHES: [usize; 2] = [192, 256];

/// About the elements of the points of the blocks that are summed before kernels are made of them: 4 MiB. Those of one block may be more.
const PACKED: usize = 1 << 20;

/// Rows of a strip in tiles: for so many output channels a panel is read once. Their points stay in the second-level cache.
const TILES: usize = 4;

/// The sums over patches.
pub(in crate::conv) struct KernelGradient {
    tile: Tile,
    sizes: ConvSizes,
    blocks: Blocks,
}

/// The kernels of the input channels of a panel and the output channels of a strip.
struct SumTask<'a> {
    panel: usize,
    strip: usize,
    /// The kernels of each output channel.
    weights: Vec<&'a mut [f32]>,
}

impl KernelGradient {
    /// The gradient of a convolution with these axes. `None` if it cannot be computed so, or if all products of all pixels are faster.
    pub(in crate::conv) fn where_it_pays(sizes: ConvSizes, axes: &[Axis; 2]) -> Option<Self> {
        if sizes.kernel != [3; 2] || !axes.iter().all(Axis::reads_three_around) {
            return None;
        }
        let made = Self::new(sizes);
        let is_whole = sizes.channels[0].is_multiple_of(made.lanes());
        (is_whole && made.blocks.columns() <= PATCHES[1] && made.pays()).then_some(made)
    }

    fn new(sizes: ConvSizes) -> Self {
        let tile = Tile::for_scattered();
        let patches = sizes.output.map(|pixels| pixels.div_ceil(PATCH));
        // A patch is an inner index: there is nothing to fill.
        let blocks = Blocks::new(Tile { columns: 1, ..tile }, sizes.batch, patches, PATCHES, TASKS);
        Self { tile, sizes, blocks }
    }

    /// Estimates whether this is faster, in cycles of a processor that adds 32 products in one.
    fn pays(&self) -> bool {
        const OF_CHANNEL: usize = 6;
        const OF_KERNEL: usize = 16;
        let ConvSizes { batch, channels: [input, output], output: [height, width], .. } = self.sizes;
        let (pixels, patches) = (batch * height * width, self.blocks.computed());
        let sums = patches.div_ceil(self.blocks.columns()).div_ceil(self.blocks_at_once());
        let products = POINTS * input * output * patches / 32;
        let beside = patches * (input + output) * OF_CHANNEL + sums * input * output * OF_KERNEL;
        products + beside < TAPS * input * output * pixels / 32
    }

    /// Numbers of a register, at most 16.
    fn lanes(&self) -> usize {
        self.tile.columns.min(16)
    }

    fn panels(&self) -> usize {
        self.sizes.channels[0].div_ceil(self.tile.columns)
    }

    /// Output channels of a strip.
    fn rows(&self) -> usize {
        TILES * self.tile.rows
    }

    fn strips(&self) -> usize {
        self.sizes.channels[1].div_ceil(self.rows())
    }

    /// Elements from a point to the next one, of a panel and of a strip: points lie in different places of the cache.
    fn of_point(&self) -> [usize; 2] {
        [self.tile.columns, self.rows()].map(|side| self.blocks.columns() * side + LINE)
    }

    /// Elements of the points of a block: those of panels, and behind them those of strips.
    fn of_block(&self) -> [usize; 2] {
        let [of_panel, of_strip] = self.of_point();
        [self.panels() * POINTS * of_panel, self.strips() * POINTS * of_strip]
    }

    /// Blocks whose points are packed together.
    fn blocks_at_once(&self) -> usize {
        (PACKED / self.of_block().iter().sum::<usize>().max(1)).max(1)
    }

    /// Elements from the products of a point to those of the next one.
    fn of_products(&self) -> usize {
        self.rows() * self.tile.columns + LINE
    }

    pub(in crate::conv) fn workspace(&self) -> Workspace {
        let of_all = self.blocks.windows(0..self.sizes.batch).count();
        let pixels = packing::most_pixels(self.blocks, self.sizes);
        let of_packing = (pixels + 1) * self.tile.columns.max(packing::ROWS);
        Workspace {
            shared: self.blocks_at_once().min(of_all) * self.of_block().iter().sum::<usize>(),
            of_each: of_packing.max(POINTS * self.of_products()),
            tasks: (of_all * (self.panels() + self.strips())).max(self.panels() * self.strips()),
            ..Workspace::default()
        }
    }

    /// Adds to `weights`, `[C_out, C_in, 3, 3]`, and returns them.
    pub(in crate::conv) fn run(
        &self,
        source: StoredFloats<'_>,
        gradient: StoredFloats<'_>,
        mut weights: Vec<f32>,
    ) -> Vec<f32> {
        let workspace = self.workspace();
        let mut packed = left_over::<f32>(workspace.shared);
        let (mut tasks, blocks) = charge(Account::Host, || {
            (self.tasks(&mut weights), self.blocks.windows(0..self.sizes.batch).collect::<Vec<_>>())
        });
        // Inside the pool, so that the calling thread waits for it once.
        rayon::scope(|_| {
            for blocks in blocks.chunks(self.blocks_at_once()) {
                let pieces = charge(Account::Host, || self.pieces(blocks, &mut packed));
                workers::each(pieces.into_iter(), workspace, |piece, pixels| match piece {
                    Piece::Panel(piece) => with_values!(source, values => {
                        vectorised(PackPanel(Packing { gradient: self, values, piece, pixels }));
                    }),
                    Piece::Strip(piece) => with_values!(gradient, values => {
                        vectorised(PackStrip(Packing { gradient: self, values, piece, pixels }));
                    }),
                });
                workers::each(tasks.iter_mut(), workspace, |task, products| {
                    vectorised(Sum { gradient: self, blocks, packed: &packed, task, products });
                });
            }
        });
        weights
    }

    /// The kernels of each panel and strip.
    fn tasks<'a>(&self, weights: &'a mut [f32]) -> Vec<SumTask<'a>> {
        let (panels, rows) = (self.panels(), self.rows());
        let task = |index: usize| SumTask {
            panel: index % panels,
            strip: index / panels,
            weights: Vec::with_capacity(rows),
        };
        let mut tasks: Vec<_> = (0..self.strips() * panels).map(task).collect();
        let of_row = (self.sizes.channels[0] * TAPS).max(1);
        for (row, weights) in weights.chunks_mut(of_row).enumerate() {
            let pieces = weights.chunks_mut(self.tile.columns * TAPS);
            for (task, piece) in tasks[row / rows * panels..].iter_mut().zip(pieces) {
                task.weights.push(piece);
            }
        }
        tasks
    }

    /// The points of each block, panel by panel and strip by strip.
    fn pieces<'a>(&self, blocks: &'a [Windows], packed: &'a mut [f32]) -> Vec<Piece<'a>> {
        let [of_panels, of_strips] = self.of_block();
        let [of_panel, of_strip] = self.of_point().map(|of_point| (POINTS * of_point).max(1));
        let parts = packed.chunks_exact_mut((of_panels + of_strips).max(1));
        let pieces = blocks.iter().zip(parts).flat_map(|(windows, points)| {
            let (panels, strips) = points.split_at_mut(of_panels);
            let piece = move |(index, to)| PointsOf { windows, index, to };
            let panels = panels.chunks_exact_mut(of_panel).enumerate().map(piece).map(Piece::Panel);
            panels.chain(strips.chunks_exact_mut(of_strip).enumerate().map(piece).map(Piece::Strip))
        });
        pieces.collect()
    }
}

/// The points of some channels of a block.
struct PointsOf<'a> {
    windows: &'a Windows,
    /// The panel or the strip.
    index: usize,
    to: &'a mut [f32],
}

enum Piece<'a> {
    Panel(PointsOf<'a>),
    Strip(PointsOf<'a>),
}

/// Adds the products of some blocks to the kernels of a task.
struct Sum<'a, 'b> {
    gradient: &'a KernelGradient,
    blocks: &'a [Windows],
    packed: &'a [f32],
    task: &'a mut SumTask<'b>,
    products: &'a mut [f32],
}

impl SimdLoops for Sum<'_, '_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { gradient, blocks, packed, task, products } = self;
        let KernelGradient { tile, .. } = *gradient;
        let [of_panels, of_strips] = gradient.of_block();
        let [of_panel, of_strip] = gradient.of_point();
        let of_products = gradient.of_products();
        let rows = tile.padded_rows(task.weights.len());
        for (point, products) in products.chunks_mut(of_products).take(POINTS).enumerate() {
            for (index, windows) in blocks.iter().enumerate() {
                let inner = gradient.blocks.patches_of(windows);
                let (panels, strips) =
                    packed[index * (of_panels + of_strips)..][..of_panels + of_strips].split_at(of_panels);
                let panel = &panels[(task.panel * POINTS + point) * of_panel..];
                let tiles = &strips[(task.strip * POINTS + point) * of_strip..][..rows * inner];
                // The next point.
                let next = &panel[of_panel..];
                TileColumn {
                    factors: Factors::Panel { tiles, tile, panel: &panel[..inner * tile.columns] },
                    next: &next[..next.len().min(inner * tile.columns)],
                    sums: &mut products[..rows * tile.columns],
                    stride: tile.columns,
                    start: Start::adding(index > 0),
                    ahead: None,
                    then: None,
                }
                .compute();
            }
        }
        for (row, weights) in task.weights.iter_mut().enumerate() {
            let products = &products[row * tile.columns..];
            match gradient.lanes() {
                8 => add_kernels::<8>(products, of_products, weights),
                _ => add_kernels::<16>(products, of_products, weights),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn_backend::DType;

    use super::*;
    use crate::{
        conv::correlate::Correlate,
        truth::{distance, stored, values},
    };

    fn sizes(batch: usize, channels: [usize; 2], size: [usize; 2]) -> ConvSizes {
        ConvSizes { batch, channels, input: size, output: size, kernel: [3; 2] }
    }

    fn axes(sizes: ConvSizes) -> [Axis; 2] {
        sizes.input.map(|size| Axis::forward(size, 3, 1, 1))
    }

    /// The gradients by fewer and by all products of some inputs and gradients, added to ones.
    fn by_fewer_and_by_all(sizes: ConvSizes, [source, gradient]: [&[f32]; 2]) -> [Vec<f32>; 2] {
        let ones = || vec![1.0; sizes.channels[0] * sizes.channels[1] * TAPS];
        let [source, gradient] = [source, gradient].map(StoredFloats::F32);
        let all = Correlate::new(sizes, &axes(sizes), [DType::F32; 2]);
        [KernelGradient::new(sizes).run(source, gradient, ones()), all.run(source, gradient, ones())]
    }

    #[test]
    fn fewer_products_give_what_all_of_them_give() {
        for size in [[1, 1], [2, 2], [3, 3], [4, 4], [7, 7], [9, 8], [14, 14], [1, 17], [30, 1], [40, 100]] {
            for (batch, channels) in [(1, [16, 1]), (2, [48, 17]), (7, [32, 33]), (33, [16, 8])] {
                let sizes = sizes(batch, channels, size);
                // Small whole numbers: sums of products are exact, and quarters of them.
                let value = |at: usize| (at * 37 % 11) as f32 - 5.0;
                let count = |channels: usize| batch * channels * size[0] * size[1];
                let source: Vec<f32> = (0..count(channels[0])).map(value).collect();
                let gradient: Vec<f32> = (0..count(channels[1])).map(|at| value(at / 3 + at)).collect();
                let [fewer, all] = by_fewer_and_by_all(sizes, [&source, &gradient]);
                assert!(fewer == all, "{sizes:?}");
            }
        }
    }

    #[test]
    fn rounding_grows_little() {
        for (batch, channels, size) in
            [(32, [64, 16], [16, 16]), (8, [32, 24], [56, 56]), (32, [32, 64], [4, 4])]
        {
            let sizes = sizes(batch, channels, size);
            let of = |name, channels| stored(name, [batch, channels, size[0], size[1]], DType::F32);
            let (source, gradient) = (of("input", channels[0]), of("gradient", channels[1]));
            let [source, gradient] = [source, gradient]
                .map(|tensor| values(tensor).iter().map(|value| *value as f32).collect::<Vec<_>>());
            let [fewer, all] = by_fewer_and_by_all(sizes, [&source, &gradient]);
            let [fewer, all] = [fewer, all].map(|made| made.into_iter().map(f64::from).collect::<Vec<_>>());
            let error = distance(&fewer, &all);
            assert!(error < 1e-6, "{error}: {sizes:?}");
        }
    }

    #[test]
    fn it_is_chosen_where_it_pays() {
        let pays = |sizes| KernelGradient::where_it_pays(sizes, &axes(sizes)).is_some();
        // Those of ResNets.
        for (batch, channels, size) in [
            (32, 64, 32),
            (32, 128, 16),
            (32, 256, 8),
            (32, 512, 4),
            (8, 64, 56),
            (8, 128, 28),
            (8, 256, 14),
            (8, 512, 7),
        ] {
            assert!(pays(sizes(batch, [channels; 2], [size; 2])), "{channels} {size}");
        }
        // Channels of no whole registers, few channels, few pixels for many kernels, and a row of patches beyond a block.
        assert!(!pays(sizes(8, [3, 64], [32; 2])));
        assert!(!pays(sizes(8, [16, 16], [32; 2])));
        assert!(!pays(sizes(1, [512; 2], [4; 2])));
        assert!(!pays(sizes(8, [64; 2], [4, 4096])));
    }

    #[test]
    fn bits_do_not_depend_on_the_number_of_threads() {
        let sizes = sizes(9, [48, 70], [14, 15]);
        let count = |channels: usize| 9 * channels * 14 * 15;
        let noise = |at: usize| ((at * 7919 + at / 13 * 104_729) % 10_007) as f32 / 10_007.0 - 0.5;
        let [source, gradient] =
            sizes.channels.map(|channels| (0..count(channels)).map(noise).collect::<Vec<_>>());
        let by = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
            pool.install(|| by_fewer_and_by_all(sizes, [&source, &gradient])[0].clone())
        };
        assert!(by(1) == by(3));
    }
}
