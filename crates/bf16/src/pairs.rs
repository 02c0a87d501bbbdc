//! Products of pairs by vectors of 16 sums: the order of both kinds of instructions that AVX-512 has for them.

use std::{
    arch::x86_64::{
        __m512, __m512i, _mm512_load_si512, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_setzero_ps,
        _mm512_storeu_ps,
    },
    marker::PhantomData,
    ptr,
    slice::ChunksExact,
};

use crate::{
    Element, Line,
    blocks::Blocks,
    line::{OF_TILE, SIDE},
    shift::Shift,
};

/// Whether the processor has the instructions of both kinds.
pub(crate) fn are_possible() -> bool {
    crate::packing::is_possible() && is_x86_feature_detected!("avx512bf16")
}

/// Instructions that multiply pairs.
pub(crate) trait PairProducts {
    /// Lines of some rows, as they are multiplied.
    type Rows<'a, const ROWS: usize>;

    /// Prepares the first lines.
    ///
    /// # Safety
    /// [`are_possible`] is true.
    unsafe fn rows<const ROWS: usize>(lines: &[Line]) -> Self::Rows<'_, ROWS>;

    /// Adds the products of one pair of each row with the pairs of columns, the second ones first.
    ///
    /// # Safety
    /// [`are_possible`] is true.
    unsafe fn add<const ROWS: usize>(
        sums: &mut [[__m512; 2]; ROWS],
        rows: &Self::Rows<'_, ROWS>,
        pair: usize,
        columns: [__m512i; 2],
    );
}

/// Blocks by these instructions, on a processor that has them.
pub(crate) struct PairBlocks<P>(PhantomData<P>);

impl<P> PairBlocks<P> {
    /// # Safety
    /// [`are_possible`] is true.
    pub(crate) unsafe fn new() -> Self {
        Self(PhantomData)
    }
}

impl<P: PairProducts> Blocks for PairBlocks<P> {
    /// 12 KiB of a strip.
    const NEAR: usize = 192;

    unsafe fn whole<E: Element>(&self, [left, right]: [&[Line]; 2], to: *mut f32, stride: usize, add: bool) {
        // SAFETY: this value shows that the instructions are there. Strips and sums have these rows, by the condition of this function.
        unsafe {
            rows::<P, E, 11>([left, right], 0, to, stride, add);
            rows::<P, E, 11>([left, right], 11, to, stride, add);
            rows::<P, E, 10>([left, right], 22, to, stride, add);
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
                rows::<P, E, 8>([left, right], 0, to, stride, add);
                rows::<P, E, 8>([left, right], 8, to, stride, add);
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
unsafe fn rows<P: PairProducts, E: Element, const ROWS: usize>(
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
            let (even, odd) = right[of_right * SIDE..][..SIDE].split_at(OF_TILE);
            // SAFETY: the processor has the instructions, as the caller promises.
            unsafe {
                let left = P::rows::<ROWS>(&left[of_left * SIDE + first..]);
                for pair in 0..OF_TILE {
                    P::add(&mut sums, &left, pair, [line_of(&even[pair]), line_of(&odd[pair])]);
                }
            }
        }
    }
    // SAFETY: as above.
    unsafe { store(sums, to, stride) };
}

/// Multiplies a strip of rows by 32 columns of planes, as [`PlaneUnit`](crate::PlaneUnit) says. `left` has the lines of each 16 planes, `right`
/// is the first pair of the first column.
///
/// # Safety
/// The processor has AVX-512's F and BF16. The lines are those of all shifts, behind `right` there are the pairs of the columns, and `to` has
/// 32 rows of 32 numbers.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(crate) unsafe fn planes<P: PairProducts>(
    left: ChunksExact<'_, Line>,
    right: *const f32,
    of_plane: usize,
    shifts: &[Shift],
    to: &mut [f32],
) {
    // SAFETY: as the caller promises.
    unsafe {
        rows_of_planes::<P, 11>(left.clone(), 0, right, of_plane, shifts, to);
        rows_of_planes::<P, 11>(left.clone(), 11, right, of_plane, shifts, to);
        rows_of_planes::<P, 10>(left, 22, right, of_plane, shifts, to);
    }
}

/// As [`planes`], of some rows, from `first` on.
///
/// # Safety
/// As for [`planes`], whose rows these are.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn rows_of_planes<P: PairProducts, const ROWS: usize>(
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
            // SAFETY: the caller promises the instructions, and the pairs of these columns.
            unsafe {
                let left = P::rows::<ROWS>(&left[index * SIDE + first..]);
                for pair in 0..OF_TILE {
                    let line = right.add((step * OF_TILE + pair) * of_plane + by);
                    let columns = [0, OF_TILE].map(|at| _mm512_loadu_si512(line.add(at).cast()));
                    P::add(&mut sums, &left, pair, columns);
                }
            }
        }
    }
    // SAFETY: the caller promises memory of these rows.
    unsafe { store(sums, to[first * SIDE..].as_mut_ptr(), SIDE) };
}

/// Writes the sums of rows, which begin `stride` numbers behind each other.
///
/// # Safety
/// The processor has AVX-512F, and behind `to` there are these rows, of 32 numbers each.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store<const ROWS: usize>(sums: [[__m512; 2]; ROWS], to: *mut f32, stride: usize) {
    for (row, sums) in sums.into_iter().enumerate() {
        for (half, sums) in sums.into_iter().enumerate() {
            // SAFETY: the row has 32 numbers.
            unsafe { _mm512_storeu_ps(to.add(row * stride + half * OF_TILE), sums) };
        }
    }
}

/// A line, in a register.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn line_of(line: &Line) -> __m512i {
    // SAFETY: a line is as large as a register, and aligned.
    unsafe { _mm512_load_si512(ptr::from_ref(line).cast()) }
}
