//! Points of minimal filters, by vectors of 16 patches. They are sums in 32 bits, which are rounded once.

use std::{
    arch::x86_64::{
        __m512, __m512bh, __m512i, _mm512_add_epi32, _mm512_add_ps, _mm512_cvtne2ps_pbh, _mm512_loadu_ps,
        _mm512_loadu_si512, _mm512_maskz_loadu_epi32, _mm512_permutex2var_ps, _mm512_permutexvar_epi16,
        _mm512_set_epi32, _mm512_set1_epi32, _mm512_setzero_ps, _mm512_store_si512, _mm512_storeu_ps,
        _mm512_sub_ps,
    },
    mem,
};

use crate::{
    Line, Neighbours, PairLine, WindowLines,
    line::{OF_TILE, SIDE},
    wide::{first_of, second_of},
    winograd::{POINTS, place},
};

/// A register for each point of 16 windows, row by row.
type Points = [[__m512; 4]; 4];

/// As [`WinogradUnit::pack_channels`](crate::WinogradUnit::pack_channels).
///
/// # Safety
/// The processor has AVX-512's F, BW and BF16. Pixels and lines are there.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(crate) unsafe fn pack_channels(
    channels: [WindowLines<'_>; 2],
    neighbours: &[Neighbours],
    to: &mut [Line],
    [of_strip, of_point]: [usize; 2],
) {
    for (index, neighbours) in neighbours.iter().enumerate() {
        // SAFETY: as the caller promises.
        unsafe {
            let even = window_points(&channels[0], index, *neighbours);
            let odd = window_points(&channels[1], index, *neighbours);
            let line = to.as_mut_ptr().add(place(index, of_strip));
            for (point, (even, odd)) in even.as_flattened().iter().zip(odd.as_flattened()).enumerate() {
                store(paired(*even, *odd), line.add(point * of_point));
            }
        }
    }
}

/// As [`WinogradUnit::pack_windows`](crate::WinogradUnit::pack_windows).
///
/// # Safety
/// As for [`pack_channels`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(crate) unsafe fn pack_windows(
    channel: &WindowLines<'_>,
    neighbours: &[[Neighbours; 2]],
    to: &mut [Line],
    of_point: usize,
) {
    for (step, neighbours) in neighbours.iter().enumerate() {
        // SAFETY: as the caller promises.
        unsafe {
            let first = window_points(channel, 2 * step, neighbours[0]);
            let second = window_points(channel, 2 * step + 1, neighbours[1]);
            store_points([first, second], to.as_mut_ptr().add(step * SIDE), of_point);
        }
    }
}

/// As [`WinogradUnit::pack_patches`](crate::WinogradUnit::pack_patches).
///
/// # Safety
/// As for [`pack_channels`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(crate) unsafe fn pack_patches(
    channel: &[PairLine<'_>; 2],
    steps: usize,
    to: &mut [Line],
    of_point: usize,
) {
    for step in 0..steps {
        // SAFETY: as the caller promises.
        unsafe {
            let (first, second) = (patch_points(channel, 2 * step), patch_points(channel, 2 * step + 1));
            store_points([first, second], to.as_mut_ptr().add(step * SIDE), of_point);
        }
    }
}

/// Makes pixels, as [`WinogradUnit::put`](crate::WinogradUnit::put).
///
/// # Safety
/// The processor has AVX-512F. The products are there, and the lines have as many pixels.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn put(products: &[f32], of_point: usize, to: [&mut [[[f32; 2]; OF_TILE]]; 2]) {
    let [above, below] = to;
    for (index, (above, below)) in above.iter_mut().zip(below).enumerate() {
        let mut points = [[_mm512_setzero_ps(); 4]; 4];
        for (point, to) in points.as_flattened_mut().iter_mut().enumerate() {
            // SAFETY: the caller promises the products of all patches.
            *to = unsafe {
                _mm512_loadu_ps(products.as_ptr().add(place(index, SIDE * SIDE) + point * of_point))
            };
        }
        let mut down = [[_mm512_setzero_ps(); 4]; 2];
        for column in 0..4 {
            let of_column = [points[0][column], points[1][column], points[2][column], points[3][column]];
            [down[0][column], down[1][column]] = pixels(of_column);
        }
        for (down, to) in down.into_iter().zip([above, below]) {
            let [left, right] = pixels(down);
            // SAFETY: there are 32 pixels.
            unsafe {
                let to = to.as_mut_ptr().cast::<f32>();
                _mm512_storeu_ps(to, _mm512_permutex2var_ps(left, alternating(0), right));
                _mm512_storeu_ps(to.add(OF_TILE), _mm512_permutex2var_ps(left, alternating(8), right));
            }
        }
    }
}

/// Eight numbers of two registers in turn, from one on.
#[inline]
#[target_feature(enable = "avx512f")]
fn alternating(first: i32) -> __m512i {
    let eight = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    _mm512_add_epi32(eight, _mm512_set1_epi32(first))
}

/// Two pixels of four points.
#[inline]
#[target_feature(enable = "avx512f")]
fn pixels([first, second, third, fourth]: [__m512; 4]) -> [__m512; 2] {
    [_mm512_add_ps(first, _mm512_add_ps(second, third)), _mm512_sub_ps(_mm512_sub_ps(second, third), fourth)]
}

/// The points of the windows of 16 patches.
///
/// # Safety
/// There are the pixels of the patches, and of one before and one behind.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn window_points(channel: &WindowLines<'_>, index: usize, neighbours: Neighbours) -> Points {
    let mut lines = [[_mm512_setzero_ps(); 4]; 4];
    for (line, pixels) in lines.iter_mut().zip(channel) {
        // SAFETY: as the caller promises.
        *line = unsafe { columns(pixels, index, neighbours) };
    }
    let mut down = lines;
    for column in 0..4 {
        let pixels = [lines[0][column], lines[1][column], lines[2][column], lines[3][column]];
        [down[0][column], down[1][column], down[2][column], down[3][column]] = window(pixels);
    }
    for row in &mut down {
        *row = window(*row);
    }
    down
}

/// The four pixels of a line of 16 windows.
///
/// # Safety
/// As for [`window_points`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn columns(line: PairLine<'_>, index: usize, [left, right]: Neighbours) -> [__m512; 4] {
    // SAFETY: as the caller promises.
    unsafe {
        let first = line.as_ptr().add(index * OF_TILE).cast();
        let before = _mm512_maskz_loadu_epi32(left, first);
        let here = _mm512_loadu_si512(first.add(1).cast());
        let behind = _mm512_maskz_loadu_epi32(right, first.add(2));
        [second_of(before), first_of(here), second_of(here), first_of(behind)]
    }
}

/// The points of four pixels.
#[inline]
#[target_feature(enable = "avx512f")]
fn window([first, second, third, fourth]: [__m512; 4]) -> [__m512; 4] {
    [
        _mm512_sub_ps(first, third),
        _mm512_add_ps(second, third),
        _mm512_sub_ps(third, second),
        _mm512_sub_ps(second, fourth),
    ]
}

/// The points of 16 patches.
///
/// # Safety
/// There are the pixels of the patches, and a pair before them.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn patch_points(channel: &[PairLine<'_>; 2], index: usize) -> Points {
    // SAFETY: as the caller promises.
    let [above, below] = unsafe {
        let first = 1 + index * OF_TILE;
        [
            _mm512_loadu_si512(channel[0].as_ptr().add(first).cast()),
            _mm512_loadu_si512(channel[1].as_ptr().add(first).cast()),
        ]
    };
    let (left, right) =
        (patch([first_of(above), first_of(below)]), patch([second_of(above), second_of(below)]));
    let mut points = [[_mm512_setzero_ps(); 4]; 4];
    for (row, points) in points.iter_mut().enumerate() {
        *points = patch([left[row], right[row]]);
    }
    points
}

/// The points of two pixels.
#[inline]
#[target_feature(enable = "avx512f")]
fn patch([first, second]: [__m512; 2]) -> [__m512; 4] {
    let negative = _mm512_sub_ps(_mm512_setzero_ps(), second);
    [first, _mm512_add_ps(first, second), _mm512_sub_ps(first, second), negative]
}

/// Stores the points of 32 patches, those of a line of one point behind those of the one before.
///
/// # Safety
/// There are these lines behind `line`.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn store_points([first, second]: [Points; 2], line: *mut Line, of_point: usize) {
    let both = first.as_flattened().iter().zip(second.as_flattened());
    for (point, (first, second)) in both.enumerate() {
        // SAFETY: as the caller promises.
        unsafe { store(bits(_mm512_cvtne2ps_pbh(*second, *first)), line.add(point * of_point)) };
    }
}

/// Rounds numbers to pairs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn paired(even: __m512, odd: __m512) -> __m512i {
    const PAIRS: [u16; SIDE] = {
        let mut pairs = [0; SIDE];
        let mut at = 0;
        while at < SIDE {
            pairs[at] = (at / 2 + at % 2 * OF_TILE) as u16;
            at += 1;
        }
        pairs
    };
    // SAFETY: a constant as long as a register.
    let pairs = unsafe { _mm512_loadu_si512(PAIRS.as_ptr().cast()) };
    _mm512_permutexvar_epi16(pairs, bits(_mm512_cvtne2ps_pbh(odd, even)))
}

/// # Safety
/// The line is there.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store(pairs: __m512i, line: *mut Line) {
    // SAFETY: a line is as large as a register, and aligned.
    unsafe { _mm512_store_si512(line.cast(), pairs) };
}

fn bits(pairs: __m512bh) -> __m512i {
    // SAFETY: both types are 512 bits, and have any.
    unsafe { mem::transmute(pairs) }
}

const _: () = assert!(POINTS == 4 * 4);
