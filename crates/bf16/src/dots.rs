//! Dot products of pairs: AVX-512 BF16, which AMD's processors have since Zen 4, and Intel's from Cooper Lake on.

use std::{
    arch::x86_64::{__m512, __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_set1_epi32},
    mem,
};

use crate::{Line, pairs::PairProducts};

/// A dot product adds a pair at once.
pub(crate) enum Dots {}

impl PairProducts for Dots {
    type Rows<'a, const ROWS: usize> = &'a [Line];

    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn rows<const ROWS: usize>(lines: &[Line]) -> &[Line] {
        &lines[..ROWS]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn add<const ROWS: usize>(
        sums: &mut [[__m512; 2]; ROWS],
        rows: &&[Line],
        pair: usize,
        columns: [__m512i; 2],
    ) {
        for (row, sums) in rows.iter().zip(sums) {
            let row = same_pairs(row, pair);
            for (sum, columns) in sums.iter_mut().zip(columns) {
                *sum = _mm512_dpbf16_ps(*sum, row, bits(columns));
            }
        }
    }
}

/// One pair of a line of a row, in all places.
#[inline]
#[target_feature(enable = "avx512f")]
fn same_pairs(line: &Line, pair: usize) -> __m512bh {
    let [even, odd] = line.0.as_chunks::<2>().0[pair].map(u32::from);
    bits(_mm512_set1_epi32((odd << 16 | even).cast_signed()))
}

fn bits(register: __m512i) -> __m512bh {
    // SAFETY: both types are 512 bits, and have any.
    unsafe { mem::transmute(register) }
}
