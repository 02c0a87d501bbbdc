//! Products of pairs by vectors of 32 bits: AVX-512. Pairs are made wide where they are multiplied, so that strips stay as small as those
//! of dot products.
//!
//! Intel's processors take two of these instructions in a cycle, of 16 products each, but a dot product of 32 only every second one. On two
//! cores of a Xeon (Emerald Rapids) dot products compute 171 GFLOP/s, and these instructions 341.

use std::{
    arch::x86_64::{
        __cpuid, __m512, __m512i, _mm512_and_si512, _mm512_castsi512_ps, _mm512_fmadd_ps, _mm512_load_si512,
        _mm512_loadu_ps, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps,
        _mm512_slli_epi32, _mm512_store_ps,
    },
    ptr,
    slice::ChunksExact,
};

use crate::{
    Element, Line, Shift,
    blocks::Blocks,
    dots::store,
    line::{OF_TILE, SIDE},
};

/// Whether the processor has the instructions. Those that pack points for them are of AVX-512 BF16.
pub(crate) fn are_possible() -> bool {
    crate::dots::are_possible()
}

/// Whether they are faster than dot products on this processor, which has both.
pub(crate) fn are_faster() -> bool {
    // Registers EBX, EDX and ECX have the letters of the maker's name.
    let maker = __cpuid(0);
    let name = [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes);
    name.as_flattened() == b"GenuineIntel"
}

/// The instructions, on a processor that has them.
pub(crate) struct Wide(());

impl Wide {
    /// # Safety
    /// [`are_possible`] is true.
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }
}

impl Blocks for Wide {
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

/// Multiplies some rows of a strip, from `first` on, by a strip of columns. All sums stay in registers.
///
/// # Safety
/// The processor has AVX-512F. Both strips have the lines of as many steps, and a strip of rows has so many. Behind `to` there are these
/// rows, of 32 numbers each, `stride` numbers behind the one before.
#[target_feature(enable = "avx512f")]
unsafe fn rows<E: Element, const ROWS: usize>(
    [left, right]: [&[Line]; 2],
    first: usize,
    to: *mut f32,
    stride: usize,
    add: bool,
) {
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    // SAFETY: the caller promises memory of these rows.
    let to = unsafe { to.add(first * stride) };
    if add {
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the row has 32 numbers.
            *sums = [0, OF_TILE].map(|at| unsafe { _mm512_loadu_ps(to.add(row * stride + at)) });
        }
    }
    let of_step = SIDE * E::PARTS;
    for (left, right) in left.chunks_exact(of_step).zip(right.chunks_exact(of_step)) {
        for [of_left, of_right] in E::PRODUCTS {
            let left = widened::<ROWS>(&left[of_left * SIDE + first..]);
            let (even, odd) = right[of_right * SIDE..][..SIDE].split_at(OF_TILE);
            for pair in 0..OF_TILE {
                add_products(&mut sums, &left, pair, [pairs(&even[pair]), pairs(&odd[pair])]);
            }
        }
    }
    // SAFETY: as above.
    unsafe { store(sums, to, stride) };
}

/// As [`planes`](crate::dots::planes), by these instructions.
///
/// # Safety
/// The processor has AVX-512F. The lines are those of all shifts, behind `right` there are the pairs of the columns, and `to` has 32 rows of
/// 32 numbers.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn planes(
    left: ChunksExact<'_, Line>,
    right: *const f32,
    of_plane: usize,
    shifts: &[Shift],
    to: &mut [f32],
) {
    // SAFETY: as the caller promises.
    unsafe {
        rows_of_planes::<11>(left.clone(), 0, right, of_plane, shifts, to);
        rows_of_planes::<11>(left.clone(), 11, right, of_plane, shifts, to);
        rows_of_planes::<10>(left, 22, right, of_plane, shifts, to);
    }
}

/// As [`planes`], of some rows, from `first` on.
///
/// # Safety
/// As for [`planes`], whose rows these are.
#[target_feature(enable = "avx512f")]
unsafe fn rows_of_planes<const ROWS: usize>(
    left: ChunksExact<'_, Line>,
    first: usize,
    right: *const f32,
    of_plane: usize,
    shifts: &[Shift],
    to: &mut [f32],
) {
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    for (step, left) in left.enumerate() {
        for Shift { by, index } in shifts {
            let left = widened::<ROWS>(&left[index * SIDE + first..]);
            for pair in 0..OF_TILE {
                // SAFETY: the caller promises the pairs of these columns.
                let columns = unsafe {
                    let line = right.add((step * OF_TILE + pair) * of_plane + by);
                    [_mm512_loadu_si512(line.cast()), _mm512_loadu_si512(line.add(OF_TILE).cast())]
                };
                add_products(&mut sums, &left, pair, columns);
            }
        }
    }
    // SAFETY: the caller promises memory of these rows.
    unsafe { store(sums, to[first * SIDE..].as_mut_ptr(), SIDE) };
}

/// The first and the second numbers of a line's pairs, in 32 bits.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct WideLine([[f32; OF_TILE]; 2]);

/// The first lines, widened.
#[inline]
#[target_feature(enable = "avx512f")]
fn widened<const ROWS: usize>(lines: &[Line]) -> [WideLine; ROWS] {
    let mut wide = [WideLine([[0.0; OF_TILE]; 2]); ROWS];
    for (line, WideLine([even, odd])) in lines[..ROWS].iter().zip(&mut wide) {
        let line = pairs(line);
        // SAFETY: both are as large as a register, and aligned.
        unsafe {
            _mm512_store_ps(even.as_mut_ptr(), first_of(line));
            _mm512_store_ps(odd.as_mut_ptr(), second_of(line));
        }
    }
    wide
}

/// Adds the products of one pair of each row with the pairs of columns, the second ones first, as dot products do.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_products<const ROWS: usize>(
    sums: &mut [[__m512; 2]; ROWS],
    rows: &[WideLine; ROWS],
    pair: usize,
    columns: [__m512i; 2],
) {
    add_halves(sums, rows, [1, pair], [second_of(columns[0]), second_of(columns[1])]);
    add_halves(sums, rows, [0, pair], [first_of(columns[0]), first_of(columns[1])]);
}

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

/// The pairs of a line.
#[inline]
#[target_feature(enable = "avx512f")]
fn pairs(line: &Line) -> __m512i {
    // SAFETY: a line is as large as a register, and aligned.
    unsafe { _mm512_load_si512(ptr::from_ref(line).cast()) }
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
