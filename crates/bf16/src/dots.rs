//! Dot products of pairs by vectors: AVX-512 BF16, which AMD's processors have since Zen 4, and Intel's from Cooper Lake on.

use std::{
    arch::x86_64::{
        __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_load_si512, _mm512_loadu_ps, _mm512_set1_epi32,
        _mm512_setzero_ps, _mm512_storeu_ps,
    },
    mem, ptr,
};

use crate::{
    Element, Line,
    blocks::Blocks,
    line::{OF_TILE, SIDE},
};

/// Whether the processor has the instructions.
pub(crate) fn are_possible() -> bool {
    crate::packing::is_possible() && is_x86_feature_detected!("avx512bf16")
}

/// The instructions, on a processor that has them.
pub(crate) struct Dots(());

impl Dots {
    /// # Safety
    /// [`are_possible`] is true.
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }
}

impl Blocks for Dots {
    /// 12 KiB of a strip.
    const NEAR: usize = 192;

    unsafe fn whole<E: Element>(&self, [left, right]: [&[Line]; 2], to: *mut f32, stride: usize, add: bool) {
        // SAFETY: this value shows that the instructions are there. Strips and sums have these rows, by the condition of this function.
        unsafe {
            rows::<E, 11>([left, right], 0, to, stride, add);
            rows::<E, 11>([left, right], 11, to, stride, add);
            rows::<E, 10>([left, right], 22, to, stride, add);
        }
    }

    unsafe fn halves<E: Element>(
        &self,
        left: &[Line],
        right: [&[Line]; 2],
        to: [*mut f32; 2],
        stride: usize,
        add: bool,
    ) {
        // The last strip of an odd number is its own neighbour: its sums are added to once.
        let strips = if to[0] == to[1] { 1 } else { 2 };
        for (right, to) in right.into_iter().zip(to).take(strips) {
            // SAFETY: as above.
            unsafe {
                rows::<E, 8>([left, right], 0, to, stride, add);
                rows::<E, 8>([left, right], 8, to, stride, add);
            }
        }
    }
}

/// Multiplies some rows of a strip, from `first` on, by a strip of columns. Each pair of elements of a row is multiplied by the pairs of 16
/// columns at once, and all sums stay in registers.
///
/// # Safety
/// The processor has AVX-512's F and BF16. Both strips have the lines of as many steps, and a strip of rows has so many. Behind `to` there
/// are these rows, of 32 numbers each, `stride` numbers behind the one before.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn rows<E: Element, const ROWS: usize>(
    [left, right]: [&[Line]; 2],
    first: usize,
    to: *mut f32,
    stride: usize,
    add: bool,
) {
    // SAFETY: the caller promises memory of these rows.
    let place = |row: usize, half: usize| unsafe { to.add((first + row) * stride + half * OF_TILE) };
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    if add {
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the row has 32 numbers.
            *sums = [0, 1].map(|half| unsafe { _mm512_loadu_ps(place(row, half)) });
        }
    }
    let of_step = SIDE * E::PARTS;
    for (left, right) in left.chunks_exact(of_step).zip(right.chunks_exact(of_step)) {
        for [of_left, of_right] in E::PRODUCTS {
            let left = &left[of_left * SIDE + first..][..ROWS];
            let (even, odd) = right[of_right * SIDE..][..SIDE].split_at(OF_TILE);
            for pair in 0..OF_TILE {
                let columns = [pairs(&even[pair]), pairs(&odd[pair])];
                for (row, sums) in left.iter().zip(&mut sums) {
                    let row = same_pairs(row, pair);
                    for (sum, columns) in sums.iter_mut().zip(columns) {
                        *sum = _mm512_dpbf16_ps(*sum, row, columns);
                    }
                }
            }
        }
    }
    for (row, sums) in sums.into_iter().enumerate() {
        for (half, sums) in sums.into_iter().enumerate() {
            // SAFETY: the row has 32 numbers.
            unsafe { _mm512_storeu_ps(place(row, half), sums) };
        }
    }
}

/// The pairs of a line of columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn pairs(line: &Line) -> __m512bh {
    // SAFETY: a line is as large as a register, and aligned.
    bits(unsafe { _mm512_load_si512(ptr::from_ref(line).cast()) })
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
