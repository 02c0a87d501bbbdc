use std::ops::Range;

use oomph_core::{Account, charge};

use crate::{
    conv::pieces::{lanes_mut, widened},
    stored_float::StoredFloat,
    tile::Tile,
    window::{Axis, Line},
};

/// The approximate number of inner indices multiplied at once: that many rows of a tile fit into the first-level cache.
const DEPTH: usize = 288;

/// Elements between channels up to which they are read in place, a tile's columns at a time: several channels are on one
/// page then. Channels of larger images are copied first, a block's columns at a time.
const NEAR: usize = 256;

/// The pixels of the target that belong to the same taps.
pub(super) struct Grid {
    pub(super) axes: [Axis; 2],
    pub(super) lines: [Line; 2],
    /// Whether the source is read in place, without a copy: there is one tap, and images are small.
    pub(super) direct: bool,
    /// Elements of a channel of an image in a block's copy of the source.
    pub(super) plane: usize,
    /// Elements between two images, and between two channels, of the memory that is read.
    pub(super) steps: [usize; 2],
    /// Rows of pixels in a block.
    pub(super) height: usize,
    /// Channels that are multiplied at once.
    pub(super) at_once: usize,
    /// The begin of the grid's weights.
    pub(super) weights: usize,
    pub(super) panels: Vec<Panel>,
    pub(super) pieces: Vec<Piece>,
}

/// The columns of a tile.
pub(super) enum Panel {
    /// Each run of columns is contiguous: they are read in place, from these begins on.
    Contiguous([usize; 2]),
    /// The columns are gathered by these pieces.
    Scattered(Range<usize>),
}

/// Contiguous columns: how many, from where, to where.
pub(super) struct Piece {
    length: usize,
    from: usize,
    to: usize,
}

impl Grid {
    pub(super) fn new(
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
        // The parts are as even as possible.
        let at_once = channels.div_ceil(channels.div_ceil(most).max(1)).max(1);
        let pixels = axes[0].source * axes[1].source;
        let direct = pixels <= NEAR && axes.iter().all(Axis::reads_as_it_lies);
        let steps = if direct { [channels * pixels, pixels] } else { [plane, images * plane] };
        let (panels, pieces) = (Vec::new(), Vec::new());
        let mut grid = Self { axes, lines, direct, plane, steps, height, at_once, weights, panels, pieces };
        charge(Account::Host, || grid.cut(tile, images));
        grid
    }

    pub(super) fn taps(&self) -> usize {
        self.axes[0].taps.len() * self.axes[1].taps.len()
    }

    /// Determines how the columns of each tile of a block are read.
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
            // With one tap, each element is read once for each tile: gathered it takes less of the first-level cache.
            let is_reused = self.taps() > 1;
            if is_reused && runs.clone().all(|run| run.windows(2).all(|pair| pair[0] + 1 == pair[1])) {
                let mut starts = runs.map(|run| run[0]);
                self.panels.push(Panel::Contiguous(std::array::from_fn(|_| starts.next().unwrap_or(0))));
            } else {
                let before = self.pieces.len();
                self.pieces.extend(pieces(panel));
                self.panels.push(Panel::Scattered(before..self.pieces.len()));
            }
        }
    }

    /// The offset of each inner index, for `channels` channels.
    pub(super) fn offsets(&self, channels: usize) -> Vec<u32> {
        let [down, across] = &self.axes;
        let length = self.lines[1].length(across);
        let taps = (0..down.taps.len()).flat_map(|y| (0..across.taps.len()).map(move |x| [y, x]));
        let taps: Vec<usize> =
            taps.map(|[y, x]| self.lines[0].tap(down, y) * length + self.lines[1].tap(across, x)).collect();
        let channels = (0..channels).map(|channel| channel * self.steps[1]);
        channels.flat_map(|channel| taps.iter().map(move |tap| (channel + tap) as u32)).collect()
    }
}

/// Cuts positions into contiguous pieces whose lengths are powers of two: single instructions copy those.
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

impl Piece {
    /// Copies the piece for all inner indices, up to column `columns`.
    #[inline(always)]
    pub(super) fn copy<E: StoredFloat>(
        &self,
        from: &[E],
        offsets: &[u32],
        panel: &mut [f32],
        tile: Tile,
        columns: usize,
    ) {
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
    fn copy_many<const LENGTH: usize, E: StoredFloat>(
        &self,
        from: &[E],
        offsets: &[u32],
        panel: &mut [f32],
        tile: Tile,
    ) {
        for (row, offset) in panel.chunks_exact_mut(tile.columns).zip(offsets) {
            *lanes_mut::<_, LENGTH>(row, self.to) = widened(from, *offset as usize + self.from);
        }
    }
}
