//! Packs vectors into strips. Pairs of elements, which the unit multiplies together, are moved as numbers of 32 bits.

use std::arch::x86_64::{
    __m512i, _mm256_loadu_si256, _mm512_add_epi32, _mm512_and_si512, _mm512_castps_si512,
    _mm512_castsi512_ps, _mm512_cvtepu16_epi32, _mm512_fpclass_ps_mask, _mm512_load_si512, _mm512_loadu_ps,
    _mm512_loadu_si512, _mm512_mask_and_epi32, _mm512_mask_or_epi32, _mm512_maskz_sub_ps, _mm512_or_si512,
    _mm512_permutex2var_epi16, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_shuffle_i32x4,
    _mm512_slli_epi32, _mm512_srli_epi32, _mm512_store_si512, _mm512_sub_ps, _mm512_unpackhi_epi32,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use half::{bf16, slice::HalfFloatSliceExt};

use crate::{
    Element, Line, Rounded, Vectors,
    line::{OF_TILE, SIDE},
};

/// Whether the processor has the instructions that pack.
pub(crate) fn is_possible() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
}

/// Parts of an element, at most.
const MOST_PARTS: usize = 3;

/// Sixteen vectors of 32 elements, as many pairs: a register for each vector, or for each pair.
type Square = [__m512i; OF_TILE];

/// Loads elements, and takes them apart. Parts that they do not have are left at zero.
pub trait Load: Sized {
    /// 32 elements of a vector, two by two.
    ///
    /// # Safety
    /// The processor has AVX-512's F, BW and DQ.
    unsafe fn along(elements: &[Self]) -> [__m512i; MOST_PARTS];

    /// Two elements, one behind the other, of 16 vectors each.
    ///
    /// # Safety
    /// As for [`along`](Self::along).
    unsafe fn across(elements: [&[Self]; 2]) -> [__m512i; MOST_PARTS];

    /// Two elements, one behind the other, of 32 vectors each: those of the first 16, and those of the others.
    ///
    /// # Safety
    /// As for [`along`](Self::along).
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    unsafe fn across_both([even, odd]: [&[Self]; 2]) -> [[__m512i; MOST_PARTS]; 2] {
        // SAFETY: the caller promises the instructions.
        unsafe { [Self::across([even, odd]), Self::across([&even[OF_TILE..], &odd[OF_TILE..]])] }
    }
}

impl Load for bf16 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    unsafe fn along(elements: &[Self]) -> [__m512i; MOST_PARTS] {
        assert!(elements.len() >= SIDE);
        let zero = _mm512_setzero_si512();
        // SAFETY: there are as many elements.
        [unsafe { _mm512_loadu_si512(elements.as_ptr().cast()) }, zero, zero]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    unsafe fn across([even, odd]: [&[Self]; 2]) -> [__m512i; MOST_PARTS] {
        let zero = _mm512_setzero_si512();
        let [even, odd] = [half_register(even), half_register(odd)];
        [_mm512_or_si512(even, _mm512_slli_epi32::<16>(odd)), zero, zero]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    unsafe fn across_both([even, odd]: [&[Self]; 2]) -> [[__m512i; MOST_PARTS]; 2] {
        assert!(even.len() >= SIDE && odd.len() >= SIDE);
        let zero = _mm512_setzero_si512();
        // SAFETY: there are as many elements.
        let (even, odd) =
            unsafe { (_mm512_loadu_si512(even.as_ptr().cast()), _mm512_loadu_si512(odd.as_ptr().cast())) };
        // SAFETY: the constants are as long as a register.
        let (first, second) = unsafe {
            (_mm512_loadu_si512(PAIRS[0].as_ptr().cast()), _mm512_loadu_si512(PAIRS[1].as_ptr().cast()))
        };
        let first = _mm512_permutex2var_epi16(even, first, odd);
        [[first, zero, zero], [_mm512_permutex2var_epi16(even, second, odd), zero, zero]]
    }
}

/// Where an element of one register stands, and the element of another one with the same place: of the first 16 elements, and of the others.
const PAIRS: [[u16; SIDE]; 2] = {
    let mut pairs = [[0; SIDE]; 2];
    let mut at = 0;
    while at < SIDE {
        let place = [at / OF_TILE, at % OF_TILE * 2];
        pairs[place[0]][place[1]] = at as u16;
        pairs[place[0]][place[1] + 1] = (SIDE + at) as u16;
        at += 1;
    }
    pairs
};

/// Sixteen elements, each in the lower half of 32 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn half_register(elements: &[bf16]) -> __m512i {
    let elements: &[u16] = elements.reinterpret_cast();
    assert!(elements.len() >= OF_TILE);
    // SAFETY: there are as many elements.
    _mm512_cvtepu16_epi32(unsafe { _mm256_loadu_si256(elements.as_ptr().cast()) })
}

impl Load for f32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    unsafe fn along(elements: &[Self]) -> [__m512i; MOST_PARTS] {
        let (first, second) = elements.split_at(OF_TILE);
        let [first, second] = [parts(first), parts(second)];
        let mut both = first;
        for part in 0..MOST_PARTS {
            both[part] = upper_of_both(first[part], second[part]);
        }
        both
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    unsafe fn across([even, odd]: [&[Self]; 2]) -> [__m512i; MOST_PARTS] {
        let (even, mut both) = (parts(even), parts(odd));
        for part in 0..MOST_PARTS {
            both[part] = _mm512_or_si512(_mm512_srli_epi32::<16>(even[part]), both[part]);
        }
        both
    }
}

impl Load for Rounded {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    unsafe fn along(elements: &[Self]) -> [__m512i; MOST_PARTS] {
        let (first, second) = elements.split_at(OF_TILE);
        let zero = _mm512_setzero_si512();
        [upper_of_both(nearest(first), nearest(second)), zero, zero]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    unsafe fn across([even, odd]: [&[Self]; 2]) -> [__m512i; MOST_PARTS] {
        let zero = _mm512_setzero_si512();
        let odd = _mm512_and_si512(nearest(odd), upper_halves());
        [_mm512_or_si512(_mm512_srli_epi32::<16>(nearest(even)), odd), zero, zero]
    }
}

/// The upper halves of both registers' numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn upper_of_both(first: __m512i, second: __m512i) -> __m512i {
    const UPPER: [u16; SIDE] = {
        let mut upper = [0; SIDE];
        let mut at = 0;
        while at < SIDE {
            upper[at] = 2 * at as u16 + 1;
            at += 1;
        }
        upper
    };
    // SAFETY: a constant as long as a register.
    let upper = unsafe { _mm512_loadu_si512(UPPER.as_ptr().cast()) };
    _mm512_permutex2var_epi16(first, upper, second)
}

/// 16 numbers, whose upper halves are the nearest ones in bf16, of two the even one. What is not a number stays so.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn nearest(numbers: &[Rounded]) -> __m512i {
    assert!(numbers.len() >= OF_TILE);
    // SAFETY: there are as many numbers.
    let bits = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let nearest = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    let is_not_a_number = _mm512_fpclass_ps_mask::<NOT_A_NUMBER>(_mm512_castsi512_ps(bits));
    _mm512_mask_or_epi32(nearest, is_not_a_number, bits, _mm512_set1_epi32(0x0040_0000))
}

/// Classes of what is not a number.
const NOT_A_NUMBER: i32 = 0x81;

/// The three parts of 16 numbers, each in the upper half of 32 bits. What is not finite has one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn parts(numbers: &[f32]) -> [__m512i; MOST_PARTS] {
    /// What is not a number, and infinities.
    const NOT_FINITE: i32 = 0x99;
    assert!(numbers.len() >= OF_TILE);
    // SAFETY: there are as many numbers.
    let numbers = unsafe { _mm512_loadu_ps(numbers.as_ptr()) };
    let bits = _mm512_castps_si512(numbers);
    let nearest = rounded(bits);
    let is_not_finite = _mm512_fpclass_ps_mask::<NOT_FINITE>(numbers);
    // The greatest numbers would be rounded to infinity.
    let is_cut = is_not_finite | _mm512_fpclass_ps_mask::<NOT_FINITE>(_mm512_castsi512_ps(nearest));
    let first = _mm512_mask_and_epi32(nearest, is_cut, bits, upper_halves());
    // What stands for no number in the lower half alone would become infinity.
    let quiet = _mm512_set1_epi32(0x0040_0000);
    let first = _mm512_mask_or_epi32(first, _mm512_fpclass_ps_mask::<NOT_A_NUMBER>(numbers), first, quiet);
    let rest = _mm512_maskz_sub_ps(!is_not_finite, numbers, _mm512_castsi512_ps(first));
    let second = rounded(_mm512_castps_si512(rest));
    let third = rounded(_mm512_castps_si512(_mm512_sub_ps(rest, _mm512_castsi512_ps(second))));
    [first, second, third]
}

/// The nearest numbers whose lower halves are zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn rounded(bits: __m512i) -> __m512i {
    _mm512_and_si512(_mm512_add_epi32(bits, _mm512_set1_epi32(0x8000)), upper_halves())
}

#[inline]
#[target_feature(enable = "avx512f")]
fn upper_halves() -> __m512i {
    _mm512_set1_epi32(0xffff_0000_u32.cast_signed())
}

/// Packs `vectors` into `to`. A line of a left tile holds 32 elements of a vector; one of a right tile, if `by_pair`, a pair of elements of
/// 16 vectors. Of the parts of elements, all first ones of 32 vectors stand before the second ones.
///
/// # Safety
/// The processor has AVX-512's F, BW and DQ.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
pub(crate) unsafe fn pack<E: Element>(vectors: Vectors<'_, E>, by_pair: bool, to: &mut [Line]) {
    let steps = vectors.inner.div_ceil(SIDE);
    let whole = if by_pair && vectors.are_across { [vectors.count, vectors.inner] } else { [0, 0] };
    let [whole_strips, whole_steps] = whole.map(|count| count / SIDE);
    // SAFETY: the caller promises the instructions.
    unsafe { put_pairs(vectors, [whole_strips, whole_steps], to) };
    for (index, lines) in to.chunks_exact_mut(SIDE * E::PARTS).enumerate() {
        let (strip, step) = (index / steps, index % steps);
        if strip < whole_strips && step < whole_steps {
            continue;
        }
        for half in 0..SIDE / OF_TILE {
            let place = [strip * SIDE + half * OF_TILE, step * SIDE];
            if place[0] >= vectors.count {
                lines[half * OF_TILE..].chunks_mut(SIDE).for_each(|lines| lines[..OF_TILE].fill(Line::ZERO));
                continue;
            }
            // SAFETY: the caller promises the instructions.
            let is_by_pair = unsafe { put(vectors, place, &mut lines[half * OF_TILE..]) };
            if is_by_pair != by_pair {
                lines[half * OF_TILE..].chunks_mut(SIDE).for_each(|lines| turn(&mut lines[..OF_TILE]));
            }
        }
    }
}

/// Puts the pairs of elements of whole strips and steps to their lines. Elements that lie side by side in memory are read one behind the
/// other, over all strips: strip by strip the processor would not foresee what is read next.
///
/// # Safety
/// As for [`pack`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
unsafe fn put_pairs<E: Element>(vectors: Vectors<'_, E>, [strips, steps]: [usize; 2], to: &mut [Line]) {
    let Vectors { elements, stride, inner, .. } = vectors;
    let of_strip = inner.div_ceil(SIDE) * SIDE * E::PARTS;
    for pair in 0..steps * OF_TILE {
        let even = &elements[2 * pair * stride..][..strips * SIDE];
        let odd = &elements[(2 * pair + 1) * stride..][..strips * SIDE];
        let first = pair / OF_TILE * SIDE * E::PARTS + pair % OF_TILE;
        for strip in 0..strips {
            // SAFETY: the caller promises the instructions.
            let halves = unsafe { E::across_both([&even[strip * SIDE..], &odd[strip * SIDE..]]) };
            for (half, parts) in halves.iter().enumerate() {
                for part in 0..E::PARTS {
                    let line = &raw mut to[strip * of_strip + first + part * SIDE + half * OF_TILE];
                    // SAFETY: a line is as large as a register, and aligned.
                    unsafe { _mm512_store_si512(line.cast(), parts[part]) };
                }
            }
        }
    }
}

/// Puts the tile of each part from a vector and an inner index on to the begin of every 32 `lines`: a line for each pair of elements, or for
/// each vector. Says which.
///
/// # Safety
/// As for [`pack`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
unsafe fn put<E: Element>(vectors: Vectors<'_, E>, [first, index]: [usize; 2], lines: &mut [Line]) -> bool {
    let Vectors { elements, count, inner, stride, are_across } = vectors;
    let is_whole = first + OF_TILE <= count && index + SIDE <= inner;
    for at in 0..OF_TILE {
        // SAFETY: the caller promises the instructions.
        let parts = unsafe {
            if !is_whole {
                // At the end of the vectors zeros stand behind.
                E::along(&vectors.some(first + at, index))
            } else if are_across {
                let [even, odd] = [index + 2 * at, index + 2 * at + 1];
                E::across([&elements[even * stride + first..], &elements[odd * stride + first..]])
            } else {
                E::along(&elements[(first + at) * stride + index..])
            }
        };
        for part in 0..E::PARTS {
            // SAFETY: a line is as large as a register, and aligned.
            unsafe { _mm512_store_si512((&raw mut lines[part * SIDE + at]).cast(), parts[part]) };
        }
    }
    is_whole && are_across
}

/// Exchanges lines, and the numbers of 32 bits in them.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn turn(lines: &mut [Line]) {
    let mut square = [_mm512_setzero_si512(); OF_TILE];
    for (register, line) in square.iter_mut().zip(&*lines) {
        // SAFETY: a line is as large as a register, and aligned.
        *register = unsafe { _mm512_load_si512((&raw const *line).cast()) };
    }
    for (line, register) in lines.iter_mut().zip(turned(square)) {
        // SAFETY: as above.
        unsafe { _mm512_store_si512((&raw mut *line).cast(), register) };
    }
}

/// Exchanges the registers and the numbers in them.
#[inline]
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
