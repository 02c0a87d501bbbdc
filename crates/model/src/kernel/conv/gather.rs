//! A convolution as a product of matrices: the kernels, and of each pixel what it reads. The second matrix is never
//! there as a whole; a block of it is put together in a core's cache when it is needed (as in "cuDNN: Efficient
//! Primitives for Deep Learning", Chetlur et al. 2014, <https://arxiv.org/abs/1410.0759>).
//!
//! What goes back to the input is of the same kind. Where the stride is not 1, the pixels of the input that are read by
//! the same taps make a grid of their own each, so that nothing is multiplied by zeros in between.
//!
//! Every result is one sum in an order of its own, channel by channel and tap by tap, in parts of about [`DEPTH`]:
//! it does not depend on how the work is cut.

use std::ops::Range;

use oomph_core::{Account, charge};
use rayon::prelude::*;

use super::{
    interleave::interleave,
    tile::{Column, Right, Tile},
    window::{Axis, Line, Run},
    workers,
};
use crate::kernel::{
    Workspace,
    rows::{Value, zeros},
    vector::{Loops, vectorised},
};

/// Inner indices that are multiplied at once, about: as many rows of a tile stay in the first cache.
const DEPTH: usize = 288;

/// Columns of a block, at least and at most, where the images allow.
const COLUMNS: [usize; 2] = [128, 512];

/// Columns of a block of an image's rows at least: what neighbours of a block read is copied twice.
const COLUMNS_OF_ROWS: usize = 384;

/// How far apart channels may be to be read as they lie, a tile's columns at a time: a page. Those of larger images are
/// copied first, a block's columns at a time.
const NEAR: usize = 1024;

/// Rows that a task computes at most: their sums stay in the second cache.
const ROWS: usize = 256;

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

/// How a convolution is computed.
pub(super) struct Gather {
    tile: Tile,
    batch: usize,
    channels: usize,
    rows: usize,
    source: [usize; 2],
    target: [usize; 2],
    kernel: [usize; 2],
    /// How far apart weights are from row to row, and from channel to channel.
    weights: [usize; 2],
    /// Images that a block has.
    images: usize,
    grids: Vec<Grid>,
}

/// Pixels of the target that are read by the same taps.
struct Grid {
    axes: [Axis; 2],
    lines: [Line; 2],
    /// Whether there is one tap, which reads every pixel of small images as it lies: the source is not copied.
    direct: bool,
    /// Elements of a channel of an image in a block's copy of the source.
    plane: usize,
    /// How far apart images are in what is read, and channels.
    steps: [usize; 2],
    /// Rows of pixels in a block.
    height: usize,
    /// Channels that are multiplied at once.
    at_once: usize,
    /// Where its weights begin.
    weights: usize,
    panels: Vec<Panel>,
    pieces: Vec<Piece>,
}

/// The columns of a tile.
enum Panel {
    /// Each run of them lies side by side: they are read where they are.
    There([usize; 2]),
    /// They have to be brought together: by which pieces.
    Scattered(Range<usize>),
}

/// Columns side by side: so many, from where, to where.
struct Piece {
    length: usize,
    from: usize,
    to: usize,
}

impl Gather {
    /// From input to output.
    pub(super) fn forward(sizes: Sizes, axes: &[Axis; 2]) -> Self {
        let [channels, rows] = sizes.channels;
        let taps = sizes.taps();
        let ends = [sizes.input, sizes.output];
        Self::new(sizes, [channels, rows], ends, [channels * taps, taps], vec![axes.clone()])
    }

    /// From the output's gradient to the input's.
    pub(super) fn backward(sizes: Sizes, axes: &[Axis; 2]) -> Self {
        let [rows, channels] = sizes.channels;
        let taps = sizes.taps();
        let [down, across] = axes;
        let grids = (0..down.stride).flat_map(|y| (0..across.stride).map(move |x| [y, x]));
        let grids = grids.map(|[y, x]| [down.backward(y), across.backward(x)]);
        let grids = grids.filter(|axes| axes.iter().all(|axis| axis.grid > 0 && !axis.taps.is_empty()));
        let ends = [sizes.output, sizes.input];
        Self::new(sizes, [channels, rows], ends, [taps, rows * taps], grids.collect())
    }

    fn new(
        sizes: Sizes,
        [channels, rows]: [usize; 2],
        [source, target]: [[usize; 2]; 2],
        weights: [usize; 2],
        grids: Vec<[Axis; 2]>,
    ) -> Self {
        let (tile, batch) = (Tile::of_this_processor(), sizes.batch);
        let largest = grids.iter().map(|axes| axes.each_ref().map(|axis| axis.grid));
        let largest = largest.max_by_key(|[height, width]| height * width).unwrap_or([1, 1]);
        let [images, height] = block(tile, batch, largest);
        let mut before = 0;
        let grids = grids.into_iter().map(|axes| {
            let grid = Grid::new(axes, tile, [images, height], channels, before);
            before += grid.taps() * channels * tile.padded_rows(rows);
            grid
        });
        let grids = grids.collect();
        Self { tile, batch, channels, rows, source, target, kernel: sizes.kernel, weights, images, grids }
    }

    /// Elements of the weights in tiles.
    fn weight_elements(&self) -> usize {
        let taps: usize = self.grids.iter().map(Grid::taps).sum();
        taps * self.channels * self.tile.padded_rows(self.rows)
    }

    /// Elements of a task's copy of the source, its panel and its sums.
    fn parts_of_workspace(&self) -> [usize; 3] {
        let copied = self.grids.iter().filter(|grid| !grid.direct);
        let copy = copied.map(|grid| grid.at_once * self.images * grid.plane);
        let depth = self.grids.iter().map(|grid| grid.at_once * grid.taps());
        let columns = self.grids.iter().map(|grid| grid.panels.len() * self.tile.columns);
        let rows = self.tile.padded_rows(self.rows.min(ROWS));
        [
            // A tile reads whole runs, behind the last column too.
            copy.max().unwrap_or(0) + self.tile.columns,
            depth.max().unwrap_or(0) * self.tile.columns,
            columns.max().unwrap_or(0) * rows,
        ]
    }

    pub(super) fn workspace(&self) -> Workspace {
        let rows = self.rows.div_ceil(self.tile.rows);
        Workspace {
            shared: self.weight_elements(),
            of_each: self.parts_of_workspace().iter().sum(),
            tasks: self.batch.div_ceil(self.images) * rows,
        }
    }

    /// Rows that a task computes: fewer where there would not be tasks enough for all threads.
    fn rows_of_a_task(&self) -> usize {
        /// Putting a block together takes as long as a few rows of products.
        const LEAST: usize = 32;
        let groups = self.batch.div_ceil(self.images).max(1);
        let threads = rayon::current_num_threads();
        let tasks = if threads > 1 { 3 * threads } else { 1 };
        let parts = tasks.div_ceil(groups).min(self.rows.div_ceil(LEAST)).max(self.rows.div_ceil(ROWS));
        self.tile.padded_rows(self.rows.div_ceil(parts.max(1)))
    }

    /// Computes the target, which is zero.
    pub(super) fn run<E: Value>(&self, weights: &[E], source: &[E], target: &mut [E]) {
        let workspace = self.workspace();
        let mut packed = zeros(workspace.shared);
        self.pack(weights, &mut packed);
        let rows = self.rows_of_a_task();
        let tasks = charge(Account::Host, || self.tasks(rows, target));
        let mut workspaces = workspace.of_threads();
        workers::each(tasks.into_iter(), &mut workspaces, workspace.of_each, |mut task, workspace| {
            vectorised(Work { gather: self, weights: &packed, source, task: &mut task, workspace });
        });
    }

    /// Puts the weights into tiles: grid by grid, block by block of channels.
    fn pack<E: Value>(&self, weights: &[E], packed: &mut [f32]) {
        let rows = self.tile.rows;
        let mut rest = packed;
        for grid in &self.grids {
            for first in (0..self.channels).step_by(grid.at_once) {
                let channels = first..(first + grid.at_once).min(self.channels);
                let depth = channels.len() * grid.taps();
                let (block, behind) = rest.split_at_mut(depth * self.tile.padded_rows(self.rows));
                rest = behind;
                block.par_chunks_mut((depth * rows).max(1)).enumerate().for_each(|(index, tile)| {
                    let of_tile = index * rows..((index + 1) * rows).min(self.rows);
                    let channels = channels.clone();
                    vectorised(Packing { gather: self, grid, weights, channels, rows: of_tile, tile });
                });
            }
        }
    }

    /// Cuts the target into what is computed at once: some images, some rows.
    fn tasks<'a, T>(&self, rows: usize, target: &'a mut [T]) -> Vec<Task<'a, T>> {
        let pixels = self.target[0] * self.target[1];
        let parts = self.rows.div_ceil(rows);
        let groups = self.batch.div_ceil(self.images);
        let task = |index: usize| {
            let first_row = index % parts * rows;
            Task {
                first_image: index / parts * self.images,
                first_row,
                rows: rows.min(self.rows - first_row),
                images: Vec::new(),
            }
        };
        let mut tasks: Vec<_> = (0..groups * parts).map(task).collect();
        for (image, elements) in target.chunks_mut((self.rows * pixels).max(1)).enumerate() {
            for (part, elements) in elements.chunks_mut(rows * pixels).enumerate() {
                tasks[image / self.images * parts + part].images.push(elements);
            }
        }
        tasks
    }
}

/// Images and rows of pixels of a block: such that little of the last tile's columns is unused.
fn block(tile: Tile, batch: usize, [height, width]: [usize; 2]) -> [usize; 2] {
    let [least, most] = COLUMNS;
    // Either some rows of an image, or some images.
    let (unit, count, least) =
        if height * width > most { (width, height, COLUMNS_OF_ROWS) } else { (height * width, batch, least) };
    let count = count.max(1);
    let used = |at_once: usize| {
        let computed = |units: usize| tile.padded_columns(units * unit);
        let all = count / at_once * computed(at_once) + computed(count % at_once);
        (count * unit) as f64 / all.max(1) as f64
    };
    let candidates = 1..=(most / unit.max(1)).clamp(1, count);
    let best = candidates.clone().map(used).fold(0.0, f64::max);
    let good = |at_once: &usize| used(*at_once) >= 0.98 * best;
    let enough = |at_once: &usize| at_once * unit >= least.min(count * unit);
    let found = candidates.clone().find(|at_once| good(at_once) && enough(at_once));
    let at_once = found.or_else(|| candidates.rev().find(good)).unwrap_or(1);
    if height * width > most { [1, at_once] } else { [at_once, height.max(1)] }
}

impl Grid {
    fn new(
        axes: [Axis; 2],
        tile: Tile,
        [images, height]: [usize; 2],
        channels: usize,
        weights: usize,
    ) -> Self {
        let [down, across] = &axes;
        let height = height.min(down.grid);
        let lines = [Line::by_tap(down, height), Line::by_tap(across, across.grid)];
        let plane = lines[0].length(down) * lines[1].length(across);
        let most = (DEPTH / (down.taps.len() * across.taps.len()).max(1)).max(1);
        // As even parts as can be.
        let at_once = channels.div_ceil(channels.div_ceil(most).max(1)).max(1);
        let pixels = axes[0].source * axes[1].source;
        let direct = pixels <= NEAR && axes.iter().all(Axis::reads_as_it_lies);
        let steps = if direct { [channels * pixels, pixels] } else { [plane, images * plane] };
        let (panels, pieces) = (Vec::new(), Vec::new());
        let mut grid = Self { axes, lines, direct, plane, steps, height, at_once, weights, panels, pieces };
        charge(Account::Host, || grid.cut(tile, images));
        grid
    }

    fn taps(&self) -> usize {
        self.axes[0].taps.len() * self.axes[1].taps.len()
    }

    /// The index in the kernel of each tap.
    fn kernel_indices(&self, [_, width]: [usize; 2]) -> impl Iterator<Item = usize> {
        let [down, across] = &self.axes;
        down.taps.iter().flat_map(move |y| across.taps.iter().map(move |x| y * width + x))
    }

    /// How the columns of a block's tiles come together.
    fn cut(&mut self, tile: Tile, images: usize) {
        let [down, across] = &self.axes;
        let [lines, columns] = [self.lines[0], self.lines[1]];
        let length = columns.length(across);
        let row = |image: usize, y: usize| image * self.steps[0] + lines.pixel(down, y) * length;
        let rows = (0..images).flat_map(|image| (0..self.height).map(move |y| [image, y]));
        let positions: Vec<usize> = rows
            .flat_map(|[image, y]| {
                let row = row(image, y);
                (0..across.grid).map(move |x| row + columns.pixel(across, x))
            })
            .collect();
        for panel in positions.chunks(tile.columns) {
            let runs = panel.chunks(tile.run());
            // What one tap alone reads is read once for each tile: side by side it takes less of the first cache.
            let is_reused = self.taps() > 1;
            if is_reused && runs.clone().all(|run| run.windows(2).all(|pair| pair[0] + 1 == pair[1])) {
                let mut starts = runs.map(|run| run[0]);
                self.panels.push(Panel::There(std::array::from_fn(|_| starts.next().unwrap_or(0))));
            } else {
                let before = self.pieces.len();
                self.pieces.extend(pieces(panel));
                self.panels.push(Panel::Scattered(before..self.pieces.len()));
            }
        }
    }

    /// Where the row of each inner index is, for so many channels.
    fn offsets(&self, channels: usize) -> Vec<u32> {
        let [down, across] = &self.axes;
        let length = self.lines[1].length(across);
        let taps = (0..down.taps.len()).flat_map(|y| (0..across.taps.len()).map(move |x| [y, x]));
        let taps: Vec<usize> =
            taps.map(|[y, x]| self.lines[0].tap(down, y) * length + self.lines[1].tap(across, x)).collect();
        let channels = (0..channels).map(|channel| channel * self.steps[1]);
        channels.flat_map(|channel| taps.iter().map(move |tap| (channel + tap) as u32)).collect()
    }
}

/// What lies side by side, in pieces of powers of two: those are copied by single instructions.
fn pieces(positions: &[usize]) -> Vec<Piece> {
    const LONGEST: usize = 16;
    let mut pieces = Vec::new();
    let mut to = 0;
    while to < positions.len() {
        let from = positions[to];
        let side_by_side = (0..positions.len() - to).take_while(|i| positions[to + i] == from + i).count();
        let length = 1 << side_by_side.min(LONGEST).ilog2();
        pieces.push(Piece { length, from, to });
        to += length;
    }
    pieces
}

/// Puts the weights of some rows and channels into a tile.
struct Packing<'a, E> {
    gather: &'a Gather,
    grid: &'a Grid,
    weights: &'a [E],
    channels: Range<usize>,
    rows: Range<usize>,
    tile: &'a mut [f32],
}

impl<E: Value> Loops for Packing<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { gather, grid, weights, channels, rows, tile } = self;
        let [of_row, of_channel] = gather.weights;
        let taps = charge(Account::Host, || grid.kernel_indices(gather.kernel).collect::<Vec<_>>());
        for (channel, tile) in channels.zip(tile.chunks_exact_mut(taps.len() * gather.tile.rows)) {
            let first = channel * of_channel;
            if of_row == 1 {
                // Rows of one channel lie side by side.
                let weights = &weights[first + rows.start..first + rows.end];
                tile.iter_mut().zip(weights).for_each(|(to, weight)| *to = weight.widened());
                continue;
            }
            let of_channel = |row: usize| &weights[(rows.start + row) * of_row + first..];
            interleave(rows.len(), of_channel, taps.iter().copied(), tile, gather.tile.rows);
        }
    }
}

/// Rows of the target of some images.
struct Task<'a, T> {
    first_image: usize,
    first_row: usize,
    rows: usize,
    /// Of each image the rows.
    images: Vec<&'a mut [T]>,
}

struct Work<'a, 'b, S, T> {
    gather: &'a Gather,
    weights: &'a [f32],
    source: &'a [S],
    task: &'a mut Task<'b, T>,
    workspace: &'a mut [f32],
}

impl<S: Value, T: Value> Loops for Work<'_, '_, S, T> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { gather, weights, source, task, workspace } = self;
        let [copy, panel, _] = gather.parts_of_workspace();
        let (copy, rest) = workspace.split_at_mut(copy);
        let (panel, sums) = rest.split_at_mut(panel);
        for grid in &gather.grids {
            let offsets = charge(Account::Host, || grid.offsets(grid.at_once));
            for first in (0..grid.axes[0].grid).step_by(grid.height) {
                for channel in (0..gather.channels).step_by(grid.at_once) {
                    let channels = channel..(channel + grid.at_once).min(gather.channels);
                    let images = task.first_image..task.first_image + task.images.len();
                    let offsets = &offsets[..channels.len() * grid.taps()];
                    let rows = task.first_row..task.first_row + task.rows;
                    let height = grid.height.min(grid.axes[0].grid - first);
                    let columns = images.len() * height * grid.axes[1].grid;
                    let products = Products { gather, grid, weights, offsets, channel, columns };
                    if grid.direct {
                        let start = images.start * grid.steps[0] + channel * grid.steps[1];
                        let start = start + first * grid.axes[1].grid;
                        products.add(rows, &source[start..], copy, panel, sums);
                    } else {
                        grid.copy(gather, source, images, channels, first, copy);
                        products.add(rows, copy, copy, panel, sums);
                    }
                }
                grid.put(gather, task, first, sums);
            }
        }
    }
}

impl Grid {
    /// Copies channels of the source: what the block of the rows of pixels from `first` on reads.
    #[inline(always)]
    fn copy<S: Value>(
        &self,
        gather: &Gather,
        source: &[S],
        images: Range<usize>,
        channels: Range<usize>,
        first: usize,
        copy: &mut [f32],
    ) {
        let [down, across] = &self.axes;
        let [height, width] = gather.source;
        let length = self.lines[1].length(across);
        let (rows, runs) =
            charge(Account::Host, || (self.lines[0].runs(down, first), self.lines[1].runs(across, 0)));
        let whole: usize = rows.iter().map(|run| run.length).sum::<usize>()
            * runs.iter().map(|run| run.length).sum::<usize>();
        for (index, channel) in channels.enumerate() {
            for (place, image) in images.clone().enumerate() {
                let plane = &mut copy[(index * gather.images + place) * self.plane..][..self.plane];
                if whole < self.plane {
                    plane.fill(0.0);
                }
                let source =
                    &source[(image * gather.channels + channel) * height * width..][..height * width];
                for row in &rows {
                    for (i, line) in plane[row.at * length..].chunks_mut(length).take(row.length).enumerate()
                    {
                        let source = &source[(row.source + i * row.step) * width..][..width];
                        runs.iter().for_each(|run| place_run(*run, source, line));
                    }
                }
            }
        }
    }

    /// Writes the sums of a block to their places in the target.
    #[inline(always)]
    fn put<T: Value>(&self, gather: &Gather, task: &mut Task<'_, T>, first: usize, sums: &[f32]) {
        let [down, across] = &self.axes;
        let [height, width] = gather.target;
        let rows = first..(first + self.height).min(down.grid);
        let columns = self.panels.len() * gather.tile.columns;
        let [[top, under], [left, step]] = [down.target, across.target];
        for (image, elements) in task.images.iter_mut().enumerate() {
            let of_rows = elements.chunks_exact_mut((height * width).max(1)).zip(sums.chunks_exact(columns));
            for (target, sums) in of_rows {
                let sums = &sums[image * self.height * across.grid..];
                for (row, sums) in rows.clone().zip(sums.chunks_exact(across.grid)) {
                    let target = &mut target[(top + row * under) * width..][..width];
                    if step == 1 {
                        target.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::rounded(*sum));
                    } else {
                        let target = target[left..].iter_mut().step_by(step);
                        target.zip(sums).for_each(|(to, sum)| *to = T::rounded(*sum));
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn place_run<S: Value>(run: Run, source: &[S], line: &mut [f32]) {
    let line = &mut line[run.at..][..run.length];
    if run.length == 0 {
        return;
    }
    let source = &source[run.source..];
    match run.step {
        1 => line.iter_mut().zip(source).for_each(|(to, from)| *to = from.widened()),
        2 => line.iter_mut().zip(source.iter().step_by(2)).for_each(|(to, from)| *to = from.widened()),
        step => line.iter_mut().zip(source.iter().step_by(step)).for_each(|(to, from)| *to = from.widened()),
    }
}

/// Products of the weights of some channels with a copy of those.
struct Products<'a> {
    gather: &'a Gather,
    grid: &'a Grid,
    weights: &'a [f32],
    offsets: &'a [u32],
    /// The first channel.
    channel: usize,
    /// Columns that there are: the last block may have fewer.
    columns: usize,
}

impl Products<'_> {
    /// Pieces come from `scattered`, what is there as it is from `copy`.
    #[inline(always)]
    fn add<E: Value>(
        &self,
        rows: Range<usize>,
        scattered: &[E],
        copy: &[f32],
        panel: &mut [f32],
        sums: &mut [f32],
    ) {
        let Self { gather, grid, offsets, .. } = self;
        let (tile, depth) = (gather.tile, offsets.len());
        let before = grid.weights + self.channel * grid.taps() * tile.padded_rows(gather.rows);
        let tiles = before + rows.start * depth..before + tile.padded_rows(rows.end) * depth;
        let stride = grid.panels.len() * tile.columns;
        let packed: Vec<u32> =
            charge(Account::Host, || (0..depth).map(|row| (row * tile.columns) as u32).collect());
        let used = self.columns.div_ceil(tile.columns);
        for (index, columns) in grid.panels.iter().take(used).enumerate() {
            let right = match columns {
                Panel::There(runs) => Right { elements: copy, runs: *runs, offsets },
                Panel::Scattered(pieces) => {
                    let panel = &mut panel[..depth * tile.columns];
                    let columns = self.columns - index * tile.columns;
                    let pieces = &grid.pieces[pieces.clone()];
                    pieces.iter().for_each(|piece| piece.copy(scattered, offsets, panel, tile, columns));
                    Right { elements: panel, runs: [0, tile.run()], offsets: &packed }
                }
            };
            let column = Column {
                left: &self.weights[tiles.clone()],
                right,
                sums: &mut sums[index * tile.columns..],
                stride,
                add: self.channel > 0,
            };
            column.compute();
        }
    }
}

impl Piece {
    /// Copies it for all inner indices, as far as there are `columns`.
    #[inline(always)]
    fn copy<E: Value>(&self, from: &[E], offsets: &[u32], panel: &mut [f32], tile: Tile, columns: usize) {
        match self.length {
            _ if self.to + self.length > columns => {
                for at in 0..columns.saturating_sub(self.to) {
                    let piece = Self { length: 1, from: self.from + at, to: self.to + at };
                    piece.copy_many::<1, E>(from, offsets, panel, tile);
                }
            }
            16 => self.copy_many::<16, E>(from, offsets, panel, tile),
            8 => self.copy_many::<8, E>(from, offsets, panel, tile),
            4 => self.copy_many::<4, E>(from, offsets, panel, tile),
            2 => self.copy_many::<2, E>(from, offsets, panel, tile),
            _ => self.copy_many::<1, E>(from, offsets, panel, tile),
        }
    }

    #[inline(always)]
    fn copy_many<const LENGTH: usize, E: Value>(
        &self,
        from: &[E],
        offsets: &[u32],
        panel: &mut [f32],
        tile: Tile,
    ) {
        for (row, offset) in panel.chunks_exact_mut(tile.columns).zip(offsets) {
            let from = &from[*offset as usize + self.from..][..LENGTH];
            let to = &mut row[self.to..][..LENGTH];
            to.iter_mut().zip(from).for_each(|(to, from)| *to = from.widened());
        }
    }
}
