//! Products of pairs that are made 32 bits wide: AVX-512. Pairs are made wide where they are multiplied, so that strips stay as small as
//! those of dot products.
//!
//! Intel's processors take two of these instructions in a cycle, of 16 products each, but a dot product of 32 only every second one. On two
//! cores of a Xeon (Emerald Rapids) dot products compute 171 GFLOP/s, and these instructions 341.

use std::arch::x86_64::{
    __cpuid, __m512, __m512i, _mm512_and_si512, _mm512_castsi512_ps, _mm512_fmadd_ps, _mm512_set1_epi32,
    _mm512_set1_ps, _mm512_slli_epi32, _mm512_store_ps,
};

use crate::{
    Line,
    line::OF_TILE,
    pairs::{PairProducts, line_of},
};

/// Whether they are faster than dot products on this processor, which has both.
pub(crate) fn are_faster() -> bool {
    // Registers EBX, EDX and ECX have the letters of the maker's name.
    let maker = __cpuid(0);
    let name = [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes);
    name.as_flattened() == b"GenuineIntel"
}

/// Each number of a pair is multiplied and added by itself, as dot products do in one instruction.
pub(crate) enum Wide {}

impl PairProducts for Wide {
    type Rows<'a, const ROWS: usize> = [WideLine; ROWS];

    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn rows<const ROWS: usize>(lines: &[Line]) -> [WideLine; ROWS] {
        let mut wide = [WideLine([[0.0; OF_TILE]; 2]); ROWS];
        for (line, WideLine([even, odd])) in lines[..ROWS].iter().zip(&mut wide) {
            let line = line_of(line);
            // SAFETY: both are as large as a register, and aligned.
            unsafe {
                _mm512_store_ps(even.as_mut_ptr(), first_of(line));
                _mm512_store_ps(odd.as_mut_ptr(), second_of(line));
            }
        }
        wide
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn add<const ROWS: usize>(
        sums: &mut [[__m512; 2]; ROWS],
        rows: &[WideLine; ROWS],
        pair: usize,
        columns: [__m512i; 2],
    ) {
        add_halves(sums, rows, [1, pair], [second_of(columns[0]), second_of(columns[1])]);
        add_halves(sums, rows, [0, pair], [first_of(columns[0]), first_of(columns[1])]);
    }
}

/// The first and the second numbers of a line's pairs, in 32 bits.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct WideLine([[f32; OF_TILE]; 2]);

/// Adds the products of one half of the pairs.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_halves<const ROWS: usize>(
    sums: &mut [[__m512; 2]; ROWS],
    rows: &[WideLine; ROWS],
    [half, pair]: [usize; 2],
    columns: [__m512; 2],
) {
    for (row, sums) in rows.iter().zip(sums) {
        let row = _mm512_set1_ps(row.0[half][pair]);
        for (sum, columns) in sums.iter_mut().zip(columns) {
            *sum = _mm512_fmadd_ps(row, columns, *sum);
        }
    }
}

/// The first numbers of pairs.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn first_of(pairs: __m512i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs))
}

/// The second numbers of pairs.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn second_of(pairs: __m512i) -> __m512 {
    _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(0xffff_0000_u32.cast_signed())))
}
