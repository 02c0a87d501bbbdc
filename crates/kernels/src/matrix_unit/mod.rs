//! What all products by the processor's matrix unit share.

mod sums;

use burn::tensor::bf16;
use burn_backend::DType;
use oomph_bf16::{Element, Line, MatrixUnit, SIDE, Vectors, lines};
use rayon::prelude::*;

use crate::{stored_float::StoredFloat, uninit, workers};

pub(crate) use sums::{AddRows, Summands, UnitSums};

/// Strips of a task, at least, if all threads have as many: fewer would load each strip of the other matrix too often.
const FEW: usize = 2;

/// Elements of 32 bits that take as much memory as a [`Line`].
pub(crate) const OF_LINE: usize = 16;

/// Elements that the unit multiplies.
pub(crate) trait UnitElement: Element + StoredFloat {}

impl<E: Element + StoredFloat> UnitElement for E {}

/// The unit that multiplies matrices of these formats faster than vectors of 32 bits, if there is one.
pub(crate) fn unit_for(left: DType, right: DType) -> Option<MatrixUnit> {
    let unit = (left == right).then(MatrixUnit::of_this_processor).flatten()?;
    let is_faster = match left {
        DType::BF16 => true,
        DType::F32 => unit.has_tiles(),
        _ => false,
    };
    is_faster.then_some(unit)
}

/// The parts of an element of a format.
pub(crate) fn parts_of(dtype: DType) -> usize {
    if dtype == DType::BF16 { bf16::PARTS } else { f32::PARTS }
}

/// Elements of 32 bits that take as much memory as the lines of `count` vectors.
pub(crate) fn elements_of_lines(count: usize, inner: usize, parts: usize) -> usize {
    lines(count, inner, parts) * OF_LINE
}

/// Elements of 32 bits in which there are the lines of `count` vectors, wherever the elements begin.
pub(crate) fn elements_around_lines(count: usize, inner: usize, parts: usize) -> usize {
    elements_of_lines(count, inner, parts) + OF_LINE
}

/// The columns of a matrix of `inner` rows: memory holds them as rows, if `are_along`, or the matrix in row-major order.
pub(crate) fn columns_of<E: Element>(
    matrix: &[E],
    [inner, columns]: [usize; 2],
    are_along: bool,
) -> Vectors<'_, E> {
    match are_along {
        true => Vectors::along(matrix, inner, columns),
        false => Vectors::across(matrix, columns, columns, inner),
    }
}

/// Packs `count` vectors strip by strip, in all threads, into `memory`, which has room for them, and maybe lines that were packed before.
/// `pack` takes the first vector of a strip, the number of its vectors, and its lines, and writes all of these.
pub(crate) fn packed_in<E: Element>(
    memory: Vec<Line>,
    count: usize,
    inner: usize,
    pack: impl Fn(usize, usize, &mut [Line]) + Sync,
) -> Vec<Line> {
    let (all, of_strip) = (lines(count, inner, E::PARTS), lines(1, inner, E::PARTS));
    packed_by(memory, all, of_strip, |index, strip| {
        let first = index * SIDE;
        pack(first, SIDE.min(count - first), strip);
    })
}

/// Packs `count` lines in `memory`, which has room for them, in all threads. `pack` takes the index of a piece and its `of_piece` lines, and
/// writes all of these.
pub(crate) fn packed_by(
    memory: Vec<Line>,
    count: usize,
    of_piece: usize,
    pack: impl Fn(usize, &mut [Line]) + Sync,
) -> Vec<Line> {
    let mut packed = uninit::left_over_in(memory, count);
    let pieces = packed.par_chunks_mut(of_piece.max(1)).enumerate();
    workers::for_each(pieces, |(index, piece)| pack(index, piece));
    packed
}

/// Vectors of a task: at most so many, and as many for all threads as can be.
pub(crate) fn of_task(vectors: usize, most: usize) -> usize {
    let (strips, threads) = (vectors.div_ceil(SIDE), workers::threads());
    let of_thread = |of_task: &usize| strips.div_ceil(*of_task).div_ceil(threads) * of_task;
    let fewest = if strips < FEW * threads { 1 } else { FEW };
    SIDE * (fewest..=most / SIDE).rev().min_by_key(of_thread).unwrap_or(fewest)
}

/// Strips of columns that are multiplied at once, so that their products are written as rows of some length. Where rows to multiply are
/// long, only a part of each is in the cache, and more strips use it.
pub(crate) fn strips_at_once(inner: usize) -> usize {
    const WHOLE: usize = 768;
    if inner <= WHOLE { 8 } else { 16 }
}

/// Multiplies `left` by all strips of `right`. `write` takes the products with some strips, and how many there are with each.
pub(crate) fn some_strips<E: Element>(
    unit: MatrixUnit,
    [left, right]: [&[Line]; 2],
    [inner, columns]: [usize; 2],
    sums: &mut [f32],
    mut write: impl FnMut(&[f32], usize),
) {
    let (of_strip, strips) = (lines(1, inner, E::PARTS), columns.div_ceil(SIDE));
    let at_once = strips_at_once(inner);
    let products = sums.len() / strips.min(at_once).max(1);
    for first in (0..strips).step_by(at_once) {
        let some = first..(first + at_once).min(strips);
        let sums = &mut sums[..some.len() * products];
        let right = &right[some.start * of_strip..some.end * of_strip];
        unit.multiply::<E>([left, right], inner, sums, false);
        write(sums, products);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_vectors_are_shared_out_among_all_threads() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let found = pool.install(|| [1, 64, 65, 128, 192, 1024].map(|vectors| of_task(vectors, 192)));
        assert_eq!(found, [32, 32, 64, 64, 96, 128]);
    }
}
