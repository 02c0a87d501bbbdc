//! Blocks of 8-bit codes with a scale: block-wise dynamic quantisation (Dettmers et al. 2022,
//! <https://arxiv.org/abs/2110.02861>).
//!
//! A code has decades that are finer the higher they are: the decade i of a value below 1 is cut into 2ⁱ equal parts. So codes
//! are positions on a line of straight pieces, the least of N lines, and values the greatest of their inverses: no
//! table and no search.
//!
//! Three things differ from the paper. Optimizers divide by the root of a mean square, and a mean square that became 0 or stands
//! still makes steps that are far too long:
//!
//! - The root of a mean square is coded, not the mean square. It has half as many decades.
//! - A mean square above 0 never becomes 0.
//! - A signed value in one of the three lowest decades, whose parts are wide, is decoded as the end of its part next to 0. So
//!   what is coded again and again does not grow.
//!
//! Blocks have 128 elements, those of the paper 2,048.

use super::format::{BLOCK, MomentKind, Values};

/// The codes of a block.
pub(super) type Codes = [u8; BLOCK];

/// Codes below this one are in the lowest decades.
const FINE: f32 = 8.0;

/// How far from the end of its part a value of the lowest decades is decoded, so that it has the same code again.
const FROM_END: f32 = 1.0 / 1024.0;

const SIGN: u8 = 0x80;

const SIGNED: Lines<7> = Lines::new();
const ROOTS: Lines<8> = Lines::new();

/// The straight pieces between values from 0 to 1 and positions from 0 to 2ᴺ, a piece for each decade.
struct Lines<const N: usize> {
    slope: [f32; N],
    inverse: [f32; N],
    offset: [f32; N],
}

impl<const N: usize> Lines<N> {
    const fn new() -> Self {
        let mut lines = Self { slope: [0.0; N], inverse: [0.0; N], offset: [0.0; N] };
        let mut decade = 0;
        while decade < N {
            let mut above = 1.0;
            let mut higher = decade + 1;
            while higher < N {
                above *= 10.0;
                higher += 1;
            }
            // 2ⁱ parts of a decade, which is nine tenths of its upper end. The part at its lower end has the position 2ⁱ.
            let parts = (1u32 << decade) as f64;
            let slope = parts * above / 0.9;
            lines.slope[decade] = slope as f32;
            lines.inverse[decade] = (1.0 / slope) as f32;
            lines.offset[decade] = (parts * (8.0 / 9.0)) as f32;
            decade += 1;
        }
        lines
    }

    #[inline(always)]
    fn position(&self, value: f32) -> f32 {
        let mut least = f32::INFINITY;
        for decade in 0..N {
            let position = value * self.slope[decade] + self.offset[decade];
            least = if position < least { position } else { least };
        }
        least
    }

    #[inline(always)]
    fn value(&self, position: f32) -> f32 {
        let mut greatest = 0.0;
        for decade in 0..N {
            let value = (position - self.offset[decade]) * self.inverse[decade];
            greatest = if value > greatest { value } else { greatest };
        }
        greatest
    }

    /// The value of the highest code.
    #[inline(always)]
    fn top(&self) -> f32 {
        self.value(((1u32 << N) - 1) as f32 + 0.5)
    }
}

/// Decodes a block.
#[inline(always)]
pub(super) fn decode(kind: MomentKind, codes: &Codes, scale: f32, values: &mut Values) {
    match kind {
        MomentKind::Signed => {
            for (value, code) in values.iter_mut().zip(codes) {
                let code = *code;
                let place = f32::from(code & !SIGN);
                let magnitude = SIGNED.value(place + if place < FINE { FROM_END } else { 0.5 }) * scale;
                *value = if code & SIGN == 0 { magnitude } else { -magnitude };
            }
        }
        MomentKind::Square => {
            for (value, code) in values.iter_mut().zip(codes) {
                let root = ROOTS.value(f32::from(*code) + 0.5) * scale;
                *value = root * root;
            }
        }
    }
}

/// Encodes a block, and gives its scale, which is not finite where a value is not.
#[inline(always)]
pub(super) fn encode(kind: MomentKind, values: &Values, codes: &mut Codes) -> f32 {
    match kind {
        MomentKind::Signed => {
            let scale = scale(greatest(values) / SIGNED.top());
            let inverse = inverse(scale);
            for (code, value) in codes.iter_mut().zip(values) {
                let place = code_at(SIGNED.position(value.abs() * inverse), 127.5);
                *code = if *value < 0.0 { place | SIGN } else { place };
            }
            scale
        }
        MomentKind::Square => {
            let mut roots = [0.0; BLOCK];
            for (root, value) in roots.iter_mut().zip(values) {
                *root = value.sqrt();
            }
            let scale = scale(greatest(&roots) / ROOTS.top());
            let inverse = inverse(scale);
            for (code, root) in codes.iter_mut().zip(&roots) {
                let place = ROOTS.position(root * inverse);
                let place = if place < 1.5 && *root > 0.0 { 1.5 } else { place };
                *code = code_at(place, 255.5);
            }
            scale
        }
    }
}

/// The code of the part in which a position is; `most` is the middle of the highest.
///
/// A conversion to an integer would check its range, without vectors. Here the sum with 2²³ rounds to the nearest integer, so
/// half of one less is added. A position on the border of two parts may get the code of either.
#[inline(always)]
fn code_at(position: f32, most: f32) -> u8 {
    let position = if position > most { most } else { position };
    (position + 8_388_607.5).to_bits() as u8
}

/// The greatest magnitude; not finite where a value is not.
#[inline(always)]
fn greatest(values: &Values) -> f32 {
    // Magnitudes are in the order of their bits, and the greatest of integers has vectors.
    let bits = values.iter().map(|value| value.to_bits() & 0x7fff_ffff);
    f32::from_bits(bits.fold(0, u32::max))
}

/// A scale that has an inverse, or 0.
#[inline(always)]
fn scale(scale: f32) -> f32 {
    if scale < f32::MIN_POSITIVE { 0.0 } else { scale }
}

/// With a scale of 0 all codes are 0.
#[inline(always)]
fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(kind: MomentKind, values: &Values) -> (Codes, f32, Values) {
        let (mut codes, mut decoded) = ([0; BLOCK], [0.0; BLOCK]);
        let scale = encode(kind, values, &mut codes);
        decode(kind, &codes, scale, &mut decoded);
        (codes, scale, decoded)
    }

    /// Both kinds, with the exponent that turns a value into what is coded.
    const KINDS: [MomentKind; 2] = [MomentKind::Signed, MomentKind::Square];

    #[test]
    fn what_was_decoded_has_the_same_codes() {
        for kind in KINDS {
            for first in [0u8, 128] {
                let mut codes: Codes = std::array::from_fn(|at| first + at as u8);
                // The code for −0, which no value has.
                codes
                    .iter_mut()
                    .filter(|code| kind == MomentKind::Signed && **code == SIGN)
                    .for_each(|code| *code = 1);
                let mut values = [0.0; BLOCK];
                for scale in [1.0, 3e-20, 7e12] {
                    decode(kind, &codes, scale, &mut values);
                    let (again, found, _) = coded(kind, &values);
                    // The square's highest code is not in the lower half.
                    if kind == MomentKind::Signed || first == 128 {
                        assert_eq!(again, codes, "{kind:?} {scale}");
                        assert!((found / scale - 1.0).abs() < 1e-6, "{found} {scale}");
                    }
                }
            }
        }
    }

    #[test]
    fn errors_are_those_of_the_parts_of_a_decade() {
        let values: Values =
            std::array::from_fn(|at| 10f32.powf(-(at as f32) / 20.0) * if at % 3 == 0 { -1.0 } else { 1.0 });
        for (value, found) in values.iter().zip(coded(MomentKind::Signed, &values).2) {
            // 64 parts of the highest decade, half as many of each lower one.
            let decade = -value.abs().log10().ceil();
            let most = 0.46 / 64.0 * 2f32.powf(decade) * 10.0;
            assert!(
                (found / value - 1.0).abs() <= if decade < 4.0 { most } else { 0.9 },
                "{found} instead of {value}"
            );
            assert!(decade < 4.0 || found.abs() <= value.abs() * 1.01, "{found} instead of {value}");
        }
        let squares = values.map(|value| value * value);
        for (value, found) in squares.iter().zip(coded(MomentKind::Square, &squares).2) {
            assert!(found > 0.0, "a square never becomes 0");
            let (root, found) = (value.sqrt(), found.sqrt());
            let decade = -root.log10().ceil();
            let most = 0.46 / 128.0 * 2f32.powf(decade) * 10.0;
            assert!(decade > 5.0 || (found / root - 1.0).abs() <= most, "{found} instead of {root}");
        }
    }

    #[test]
    fn extreme_blocks_are_coded() {
        for kind in KINDS {
            assert_eq!(coded(kind, &[0.0; BLOCK]), ([0; BLOCK], 0.0, [0.0; BLOCK]));
            for broken in [f32::NAN, f32::INFINITY] {
                let mut values = [1.0; BLOCK];
                values[77] = broken;
                assert!(!coded(kind, &values).1.is_finite(), "{kind:?}");
            }
            for like in [f32::MIN_POSITIVE, 1e-44, 3.3e38] {
                let (_, scale, found) = coded(kind, &[like; BLOCK]);
                assert!(
                    scale.is_finite() && found[0] >= 0.0 && found[0] <= f32::MAX,
                    "{kind:?} {like}: {found:?}"
                );
            }
        }
        let values = [-3.35e38; BLOCK];
        assert!(coded(MomentKind::Signed, &values).2[0] < -3.3e38);
    }
}
