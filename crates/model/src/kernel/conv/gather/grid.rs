use std::ops::Range;

use oomph_core::{Account, charge};

use crate::kernel::{
    conv::window::{Axis, Line},
    rows::Value,
    tile::Tile,
};

/// Inner indices that are multiplied at once, about: as many rows of a tile stay in the first cache.
const DEPTH: usize = 288;

/// How far apart channels may be to be read as they lie, a tile's columns at a time: several are on a page then. Those of
/// larger images are copied first, a block's columns at a time.
const NEAR: usize = 256;

/// Pixels of the target that are read by the same taps.
pub(super) struct Grid {
    pub(super) axes: [Axis; 2],
    pub(super) lines: [Line; 2],
    /// Whether there is one tap, which reads every pixel of small images as it lies: the source is not copied.
    pub(super) direct: bool,
    /// Elements of a channel of an image in a block's copy of the source.
    pub(super) plane: usize,
    /// How far apart images are in what is read, and channels.
    pub(super) steps: [usize; 2],
    /// Rows of pixels in a block.
    pub(super) height: usize,
    /// Channels that are multiplied at once.
    pub(super) at_once: usize,
    /// Where its weights begin.
    pub(super) weights: usize,
    pub(super) panels: Vec<Panel>,
    pub(super) pieces: Vec<Piece>,
}

/// The columns of a tile.
pub(super) enum Panel {
    /// Each run of them lies side by side: they are read where they are.
    There([usize; 2]),
    /// They have to be brought together: by which pieces.
    Scattered(Range<usize>),
}

/// Columns side by side: so many, from where, to where.
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

    pub(super) fn taps(&self) -> usize {
        self.axes[0].taps.len() * self.axes[1].taps.len()
    }

    /// The index in the kernel of each tap.
    pub(super) fn kernel_indices(&self, [_, width]: [usize; 2]) -> impl Iterator<Item = usize> {
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

impl Piece {
    /// Copies it for all inner indices, as far as there are `columns`.
    #[inline(always)]
    pub(super) fn copy<E: Value>(
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
