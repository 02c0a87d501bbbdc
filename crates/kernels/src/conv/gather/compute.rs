use std::ops::Range;

use oomph_core::{Account, charge};

use super::{
    blocking::Gather,
    grid::{Grid, Panel},
};
use crate::{
    conv::product::{ConvProduct, ConvTask},
    prefetch::{Ahead, Rows},
    stored_float::StoredFloat,
    tile::{Factors, ScatteredColumns, Start, TileColumn},
    window::{Axis, PixelRun},
};

impl Grid {
    /// Copies the pixels of some channels that a block reads: the block of rows of pixels from `first` on.
    #[inline(always)]
    pub(super) fn copy<S: StoredFloat>(
        &self,
        gather: &Gather,
        source: &[S],
        images: Range<usize>,
        channels: Range<usize>,
        first: usize,
        copy: &mut [f32],
    ) {
        let [down, across] = &self.axes;
        let [height, width] = gather.product.source;
        let length = self.lines[1].length(across);
        let (rows, runs) =
            charge(Account::Host, || (self.lines[0].runs(down, first), self.lines[1].runs(across, 0)));
        let whole: usize = rows.iter().map(|run| run.length).sum::<usize>()
            * runs.iter().map(|run| run.length).sum::<usize>();
        let lies_as_copied = self.axes.iter().all(Axis::reads_as_it_lies);
        for (index, channel) in channels.enumerate() {
            for (place, image) in images.clone().enumerate() {
                let plane = &mut copy[(index * gather.images + place) * self.plane..][..self.plane];
                if whole < self.plane {
                    plane.fill(0.0);
                }
                let source =
                    &source[(image * gather.product.channels + channel) * height * width..][..height * width];
                if lies_as_copied {
                    let source = &source[first * width..];
                    plane.iter_mut().zip(source).for_each(|(to, from)| *to = from.widened());
                    continue;
                }
                for row in &rows {
                    for (i, line) in plane[row.at * length..].chunks_mut(length).take(row.length).enumerate()
                    {
                        let source = &source[(row.source + i * row.step) * width..][..width];
                        // A closure would be compiled as a function of its own, without vectors.
                        for run in &runs {
                            place_run(*run, source, line);
                        }
                    }
                }
            }
        }
    }

    /// Writes the sums of a block to the target.
    #[inline(always)]
    pub(super) fn put<T: StoredFloat>(
        &self,
        gather: &Gather,
        task: &mut ConvTask<'_, T>,
        first: usize,
        sums: &[f32],
    ) {
        let [down, across] = &self.axes;
        let [height, width] = gather.product.target;
        let rows = first..(first + self.height).min(down.grid);
        let columns = self.panels.len() * gather.tile.columns;
        let [[top, under], [left, step]] = [down.target, across.target];
        if [under, step] == [1, 1] && across.grid == width {
            // Source and target both hold the rows of pixels one behind the other.
            let (images, rows_of_each) = (task.images.len(), task.rows);
            for (image, row) in (0..images).flat_map(|image| (0..rows_of_each).map(move |row| (image, row))) {
                let sums = &sums[row * columns + image * self.height * width..][..rows.len() * width];
                task.write(image, row, (top + rows.start) * width, sums);
            }
            return;
        }
        for (image, elements) in task.images.iter_mut().enumerate() {
            let of_rows = elements.chunks_exact_mut((height * width).max(1)).zip(sums.chunks_exact(columns));
            for (target, sums) in of_rows {
                let sums = &sums[image * self.height * across.grid..];
                for (row, sums) in rows.clone().zip(sums.chunks_exact(across.grid)) {
                    let target = &mut target[(top + row * under) * width..][..width];
                    if step == 1 {
                        target.iter_mut().zip(sums).for_each(|(to, sum)| {
                            to.write(T::rounded(*sum));
                        });
                    } else {
                        let target = target[left..].iter_mut().step_by(step);
                        target.zip(sums).for_each(|(to, sum)| {
                            to.write(T::rounded(*sum));
                        });
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn place_run<S: StoredFloat>(run: PixelRun, source: &[S], line: &mut [f32]) {
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

/// The products of the weights of some channels with a block of those channels.
pub(super) struct BlockProducts<'a> {
    pub(super) gather: &'a Gather,
    pub(super) grid: &'a Grid,
    pub(super) weights: &'a [f32],
    pub(super) offsets: &'a [u32],
    /// The first channel.
    pub(super) channel: usize,
    /// Columns of the block; the last block may have fewer than others.
    pub(super) columns: usize,
}

impl BlockProducts<'_> {
    /// What is brought into the cache while these products are computed: the pixels that they are written to, if no channel is left, and
    /// the source of the next block.
    #[inline(always)]
    pub(super) fn ahead<E>(&self, source: &[E], task: &ConvTask<'_, E>, first: usize) -> Ahead {
        let Self { gather, grid, offsets, channel, .. } = self;
        let ConvProduct { channels, source: [height, width], target: [_, target_width], .. } = gather.product;
        let ([down, across], pixels) = (&grid.axes, gather.product.target.iter().product::<usize>());
        let tile = gather.tile;
        let mut rows = Vec::new();
        let is_last = channel + grid.at_once >= channels;
        if is_last && down.target[1] == 1 && across.target[1] == 1 {
            let (from, length) =
                ((down.target[0] + first) * target_width, grid.height.min(down.grid - first) * target_width);
            rows.extend(task.images.iter().map(|image| {
                let length = length.min(pixels - from);
                Rows::of(&image[from..], length, pixels, task.rows)
            }));
        }
        let (next_first, next_channel) =
            if is_last { (first + grid.height, 0) } else { (first, channel + grid.at_once) };
        let lines =
            (next_first * down.stride).min(height)..((next_first + grid.height) * down.stride).min(height);
        if !grid.direct && next_first < down.grid && !lines.is_empty() {
            let count = grid.at_once.min(channels - next_channel);
            rows.extend((0..task.images.len()).map(|image| {
                let plane = (task.first_image + image) * channels + next_channel;
                Rows::of(
                    &source[plane * height * width + lines.start * width..],
                    lines.len() * width,
                    height * width,
                    count,
                )
            }));
        }
        let used = self.columns.div_ceil(tile.columns);
        Ahead::new(rows, used * tile.moments(task.rows, offsets.len()))
    }

    /// Adds the products to `sums`. Scattered columns are read from `scattered`, contiguous ones from `copy`.
    #[inline(always)]
    pub(super) fn add<E: StoredFloat>(
        &self,
        rows: Range<usize>,
        scattered: &[E],
        copy: &[f32],
        panel: &mut [f32],
        sums: &mut [f32],
        mut ahead: Ahead,
    ) {
        let Self { gather, grid, offsets, .. } = self;
        let (tile, depth) = (gather.tile, offsets.len());
        let before = grid.weights + self.channel * grid.taps() * tile.padded_rows(gather.product.rows);
        let tiles = &self.weights[before..][rows.start * depth..tile.padded_rows(rows.end) * depth];
        let stride = grid.panels.len() * tile.columns;
        let used = self.columns.div_ceil(tile.columns);
        for (index, columns) in grid.panels.iter().take(used).enumerate() {
            let factors = match columns {
                Panel::Contiguous(runs) => {
                    let columns = ScatteredColumns { elements: copy, runs: *runs, offsets };
                    Factors::Scattered { tiles, columns }
                }
                Panel::Scattered(pieces) => {
                    let panel = &mut panel[..depth * tile.columns];
                    let columns = self.columns - index * tile.columns;
                    let pieces = &grid.pieces[pieces.clone()];
                    // A closure would be compiled as a function of its own, without vectors.
                    for piece in pieces {
                        piece.copy(scattered, offsets, panel, tile, columns);
                    }
                    Factors::Panel { tiles, tile, panel }
                }
            };
            let column = TileColumn {
                factors,
                next: &[],
                ahead: Some(&mut ahead),
                sums: &mut sums[index * tile.columns..],
                stride,
                start: Start::adding(self.channel > 0),
                then: None,
            };
            column.compute();
        }
    }
}
