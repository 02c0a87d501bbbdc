/// Vectors of a strip, and the inner indices that are multiplied at once.
pub const SIDE: usize = 32;

/// Vectors of a tile: a strip is two tiles wide.
pub(crate) const OF_TILE: usize = SIDE / 2;

/// Rows that [`multiply_rows`](crate::MatrixUnit::multiply_rows) multiplies in half the time of a strip.
pub const FEW_ROWS: usize = OF_TILE;

/// A row of a tile of the unit, in packed strips: 64 bytes, as a line of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub(crate) [u16; 32]);

impl Line {
    /// A line of zeros.
    pub const ZERO: Self = Self([0; 32]);

    /// The lines within `memory`, from the first one on that lies at a whole line. A line takes 16 numbers: of `n + 16` numbers at
    /// least `n / 16` lines are left.
    pub fn within(memory: &mut [f32]) -> &mut [Self] {
        // SAFETY: both types have any bits, and neither has padding.
        let (_, lines, _) = unsafe { memory.align_to_mut() };
        lines
    }

    /// As [`within`](Self::within), to read the lines. They are the same ones as long as the memory lies where it was written.
    pub fn read_within(memory: &[f32]) -> &[Self] {
        // SAFETY: as above.
        let (_, lines, _) = unsafe { memory.align_to() };
        lines
    }
}

/// The lines that `count` vectors of `inner` elements take in strips, of elements of so many [parts](crate::Element::PARTS).
pub const fn lines(count: usize, inner: usize, parts: usize) -> usize {
    count.div_ceil(SIDE) * inner.div_ceil(SIDE) * SIDE * parts
}
