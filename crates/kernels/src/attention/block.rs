//! A block of the matrix: some queries by some keys.

use std::ops::Range;

use super::{Attention, Heads, matrix::Matrix};

/// Queries of a block. Their scores and a block of keys fit into a core's second-level cache.
pub(super) const QUERIES: usize = 64;

/// Keys of a block. With fewer, the outputs of a block of queries are scaled and added to more often.
pub(super) const KEYS: usize = 256;

/// The first positions of blocks of `of_each`, up to `end`.
pub(super) fn blocks(positions: Range<usize>, of_each: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    let end = positions.end;
    positions.step_by(of_each).map(move |first| first..(first + of_each).min(end))
}

/// How many of the block's `keys` a query reads.
#[inline(always)]
pub(super) fn live(is_causal: bool, query: usize, keys: &Range<usize>) -> usize {
    if is_causal { (query + 1).saturating_sub(keys.start).min(keys.len()) } else { keys.len() }
}

/// The factors of the scores: what queries are multiplied by before they are packed, and the scores afterwards. Queries that are rounded
/// are rounded once.
pub(super) fn scale(heads: Heads, keys: Matrix) -> [f32; 2] {
    if keys.rounds() { [1.0, heads.scale()] } else { [heads.scale(), 1.0] }
}

impl Attention {
    /// The factors of the dropout for elements of the matrix: those of a row, from `at` on, which is a sample, a head, a query and a key.
    /// `factors` has space for a row of a block. `None` if nothing is dropped.
    #[inline(always)]
    pub(super) fn factors<'a>(
        &self,
        at: [usize; 4],
        positions: usize,
        factors: &'a mut [f32],
    ) -> Option<&'a [f32]> {
        let mask = self.dropout.as_ref()?;
        let [sample, head, query, key] = at;
        let at = ((sample * self.heads.queries + head) * positions + query) * positions + key;
        mask.write_factors(at, factors);
        Some(factors)
    }
}

/// Multiplies a row by factors, if there are some.
#[inline(always)]
pub(super) fn drop(row: &mut [f32], factors: Option<&[f32]>) {
    if let Some(factors) = factors {
        row.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
    }
}
