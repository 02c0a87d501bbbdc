//! Transposes of some rows by vector instructions. The compiler makes an instruction of each element: half as fast.

/// Writes the columns of eight rows side by side: column i to the begin of the i-th piece of `stride` elements of `to`. Gives the number of
/// columns that are written, the first ones; on other processors than x86-64 with AVX that is 0.
#[inline(always)]
pub(crate) fn eight(rows: [&[f32]; 8], to: &mut [f32], stride: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX.
        return unsafe { x86::eight(rows, to, stride) };
    }
    let _ = (rows, to, stride);
    0
}

/// As [`eight`], for four rows.
#[inline(always)]
pub(crate) fn four(rows: [&[f32]; 4], to: &mut [f32], stride: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    return x86::four(rows, to, stride);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (rows, to, stride);
        0
    }
}

/// As [`eight`], for two rows.
#[inline(always)]
pub(crate) fn two(rows: [&[f32]; 2], to: &mut [f32], stride: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    return x86::two(rows, to, stride);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (rows, to, stride);
        0
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128, _mm_castps_pd, _mm_loadu_ps, _mm_movehl_ps, _mm_movelh_ps, _mm_storeh_pd, _mm_storel_pd,
        _mm_storeu_ps, _mm_unpackhi_ps, _mm_unpacklo_ps, _mm256_castps128_ps256, _mm256_insertf128_ps,
        _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };

    /// Columns that are transposed at once.
    const AT_ONCE: usize = 4;

    /// How many columns have all rows, and room for them; a multiple of [`AT_ONCE`].
    #[inline(always)]
    fn columns<const ROWS: usize>(rows: &[&[f32]; ROWS], to: &[f32], stride: usize) -> usize {
        let read = rows.iter().fold(usize::MAX, |least, row| least.min(row.len()));
        let written = if to.len() < ROWS { 0 } else { (to.len() - ROWS) / stride.max(1) + 1 };
        let columns = read.min(written);
        columns - columns % AT_ONCE
    }

    #[target_feature(enable = "avx")]
    pub(super) fn eight(rows: [&[f32]; 8], to: &mut [f32], stride: usize) -> usize {
        let columns = columns(&rows, to, stride);
        for first in (0..columns).step_by(AT_ONCE) {
            // Four numbers of a row, and as many of the fourth row behind it.
            let pair = |row: usize| {
                // SAFETY: both rows have four more elements.
                let [low, high] = [row, row + 4].map(|row| unsafe { load(rows[row], first) });
                _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
            };
            let [a, b, c, d] = [pair(0), pair(1), pair(2), pair(3)];
            let [ab, cd] = [_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d)];
            let [ab_high, cd_high] = [_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d)];
            let made = [
                _mm256_shuffle_ps::<0x44>(ab, cd),
                _mm256_shuffle_ps::<0xEE>(ab, cd),
                _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
                _mm256_shuffle_ps::<0xEE>(ab_high, cd_high),
            ];
            for (index, column) in made.into_iter().enumerate() {
                // SAFETY: eight elements of each column are within `to`.
                unsafe { _mm256_storeu_ps(to.as_mut_ptr().add((first + index) * stride), column) };
            }
        }
        columns
    }

    #[inline(always)]
    pub(super) fn four(rows: [&[f32]; 4], to: &mut [f32], stride: usize) -> usize {
        let columns = columns(&rows, to, stride);
        for first in (0..columns).step_by(AT_ONCE) {
            // SAFETY: all rows have four more elements.
            let [a, b, c, d] = rows.map(|row| unsafe { load(row, first) });
            // SAFETY: every x86-64 has these instructions, and four elements of each column are within `to`.
            unsafe {
                let [ab, cd] = [_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d)];
                let [ab_high, cd_high] = [_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d)];
                let made = [
                    _mm_movelh_ps(ab, cd),
                    _mm_movehl_ps(cd, ab),
                    _mm_movelh_ps(ab_high, cd_high),
                    _mm_movehl_ps(cd_high, ab_high),
                ];
                for (index, column) in made.into_iter().enumerate() {
                    _mm_storeu_ps(to.as_mut_ptr().add((first + index) * stride), column);
                }
            }
        }
        columns
    }

    #[inline(always)]
    pub(super) fn two(rows: [&[f32]; 2], to: &mut [f32], stride: usize) -> usize {
        let columns = columns(&rows, to, stride);
        for first in (0..columns).step_by(AT_ONCE) {
            // SAFETY: both rows have four more elements.
            let [a, b] = rows.map(|row| unsafe { load(row, first) });
            let place = |index: usize| (first + index) * stride;
            // SAFETY: every x86-64 has these instructions, and two elements of each column are within `to`.
            unsafe {
                for (index, pairs) in [(0, _mm_unpacklo_ps(a, b)), (2, _mm_unpackhi_ps(a, b))] {
                    // Two numbers are moved as one of 64 bits.
                    let pairs = _mm_castps_pd(pairs);
                    _mm_storel_pd(to.as_mut_ptr().add(place(index)).cast(), pairs);
                    _mm_storeh_pd(to.as_mut_ptr().add(place(index + 1)).cast(), pairs);
                }
            }
        }
        columns
    }

    /// # Safety
    /// The row has four elements from the first on.
    #[inline(always)]
    unsafe fn load(row: &[f32], first: usize) -> __m128 {
        // SAFETY: the caller promises that they are there.
        unsafe { _mm_loadu_ps(row.as_ptr().add(first)) }
    }
}
