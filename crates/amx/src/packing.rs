//! Packs vectors into strips. Pairs of elements, which the unit multiplies together, are moved as numbers of 32 bits.

use std::arch::x86_64::{
    __m256i, __m512i, _mm256_loadu_si256, _mm512_cvtepu16_epi32, _mm512_loadu_si512, _mm512_or_si512,
    _mm512_shuffle_i32x4, _mm512_slli_epi32, _mm512_store_si512, _mm512_unpackhi_epi32,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use crate::{
    Line, Vectors,
    line::{OF_TILE, SIDE},
};

/// Sixteen vectors of 32 elements, as many pairs: a register for each vector, or for each pair.
type Square = [__m512i; OF_TILE];

/// Packs `vectors` into `to`. A line of a left tile holds 32 elements of a vector; one of a right tile, if `by_pair`, a pair of elements of
/// 16 vectors.
///
/// # Safety
/// The processor has AVX-512's F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn pack(vectors: Vectors<'_>, by_pair: bool, to: &mut [Line]) {
    let steps = vectors.inner.div_ceil(SIDE);
    for (index, lines) in to.chunks_exact_mut(SIDE).enumerate() {
        let (strip, step) = (index / steps, index % steps);
        for (half, lines) in lines.chunks_exact_mut(OF_TILE).enumerate() {
            let square = square(vectors, strip * SIDE + half * OF_TILE, step * SIDE);
            // Read across memory, a square is by pairs; along it, by vectors.
            let square = if vectors.are_across == by_pair { square } else { turned(square) };
            for (line, register) in lines.iter_mut().zip(square) {
                // SAFETY: a line is as large as a register, and aligned.
                unsafe { _mm512_store_si512((&raw mut *line).cast(), register) };
            }
        }
    }
}

/// The square from vector `first` and inner index `index` on.
#[target_feature(enable = "avx512f,avx512bw")]
fn square(vectors: Vectors<'_>, first: usize, index: usize) -> Square {
    let Vectors { elements, count, inner, stride, are_across } = vectors;
    if first + OF_TILE > count || index + SIDE > inner {
        let square = partial(vectors, first, index);
        return if are_across { turned(square) } else { square };
    }
    let zero = _mm512_slli_epi32::<0>(_mm512_cvtepu16_epi32(load_half(&[0; OF_TILE])));
    let mut square = [zero; OF_TILE];
    for (at, register) in square.iter_mut().enumerate() {
        *register = if are_across {
            let [low, high] =
                [0, 1].map(|odd| &elements[(index + 2 * at + odd) * stride + first..][..OF_TILE]);
            let high = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(load_half(high)));
            _mm512_or_si512(_mm512_cvtepu16_epi32(load_half(low)), high)
        } else {
            load(&elements[(first + at) * stride + index..][..SIDE])
        };
    }
    square
}

/// A square at the end of the vectors, with zeros behind: a register for each vector.
#[cold]
#[target_feature(enable = "avx512f,avx512bw")]
fn partial(vectors: Vectors<'_>, first: usize, index: usize) -> Square {
    std::array::from_fn(|at| {
        let bits: [u16; SIDE] = std::array::from_fn(|of| vectors.bits(first + at, index + of));
        load(&bits)
    })
}

#[target_feature(enable = "avx512f")]
fn load(elements: &[u16]) -> __m512i {
    assert!(elements.len() >= SIDE);
    // SAFETY: there are as many elements.
    unsafe { _mm512_loadu_si512(elements.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
fn load_half(elements: &[u16]) -> __m256i {
    assert!(elements.len() >= OF_TILE);
    // SAFETY: there are as many elements.
    unsafe { _mm256_loadu_si256(elements.as_ptr().cast()) }
}

/// Exchanges the registers and the numbers in them.
#[target_feature(enable = "avx512f")]
fn turned(rows: Square) -> Square {
    let mut pairs = rows;
    for (at, pair) in rows.as_chunks::<2>().0.iter().enumerate() {
        pairs[2 * at] = _mm512_unpacklo_epi32(pair[0], pair[1]);
        pairs[2 * at + 1] = _mm512_unpackhi_epi32(pair[0], pair[1]);
    }
    // Of every four rows, each register has a column in each quarter.
    let mut fours = pairs;
    for (at, four) in pairs.as_chunks::<4>().0.iter().enumerate() {
        fours[4 * at] = _mm512_unpacklo_epi64(four[0], four[2]);
        fours[4 * at + 1] = _mm512_unpackhi_epi64(four[0], four[2]);
        fours[4 * at + 2] = _mm512_unpacklo_epi64(four[1], four[3]);
        fours[4 * at + 3] = _mm512_unpackhi_epi64(four[1], four[3]);
    }
    let mut turned = fours;
    for at in 0..4 {
        let [a, b, c, d] = [fours[at], fours[4 + at], fours[8 + at], fours[12 + at]];
        let (even_above, even_below) =
            (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0x88>(c, d));
        let (odd_above, odd_below) = (_mm512_shuffle_i32x4::<0xdd>(a, b), _mm512_shuffle_i32x4::<0xdd>(c, d));
        turned[at] = _mm512_shuffle_i32x4::<0x88>(even_above, even_below);
        turned[4 + at] = _mm512_shuffle_i32x4::<0x88>(odd_above, odd_below);
        turned[8 + at] = _mm512_shuffle_i32x4::<0xdd>(even_above, even_below);
        turned[12 + at] = _mm512_shuffle_i32x4::<0xdd>(odd_above, odd_below);
    }
    turned
}
