//! binary16, bfloat16 and tf32, by integer arithmetic without branches, which compiles to vector instructions.
//!
//! NaNs become the canonical NaN of PTX, 0x7fff, in both 16-bit formats.

use super::rounding::to_f32_odd;

/// A format of 16 bits that computes in wider numbers.
pub(crate) trait Half {
    /// The least positive number that is not subnormal.
    const LEAST_NORMAL: f32;
    /// The value, exactly.
    fn widen(bits: u32) -> f32;
    /// The nearest value, ties to even.
    fn narrow(value: f32) -> u32;
    /// The nearest value of a wider result, rounded once.
    fn narrow_f64(value: f64) -> u32 {
        Self::narrow(to_f32_odd(value))
    }
}

/// IEEE binary16.
pub(crate) struct F16;
/// The upper half of a binary32.
pub(crate) struct Bf16;

impl Half for F16 {
    const LEAST_NORMAL: f32 = 6.103_515_6e-5;

    #[inline(always)]
    fn widen(bits: u32) -> f32 {
        let magnitude = (bits & 0x7fff) << 13;
        let exponent = magnitude & 0x0f80_0000;
        // Normal numbers only need another bias.
        let normal = magnitude + (112 << 23);
        let infinite = magnitude + (224 << 23);
        let tiny = (f32::from_bits(magnitude + (113 << 23)) - f32::from_bits(113 << 23)).to_bits();
        let out = if exponent == 0x0f80_0000 {
            infinite
        } else if exponent == 0 {
            tiny
        } else {
            normal
        };
        f32::from_bits(out | (bits & 0x8000) << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> u32 {
        // Adding this puts the last bit of a subnormal result at the last bit of the sum.
        const TINY: f32 = 0.5;
        let bits = value.to_bits();
        let sign = bits & 0x8000_0000;
        let magnitude = bits ^ sign;
        let tiny = (f32::from_bits(magnitude) + TINY).to_bits().wrapping_sub(TINY.to_bits());
        let even = (magnitude >> 13) & 1;
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + even) >> 13;
        let out = if magnitude >= 143 << 23 {
            0x7c00
        } else if magnitude < 113 << 23 {
            tiny
        } else {
            normal
        };
        if magnitude > 0x7f80_0000 { 0x7fff } else { out | sign >> 16 }
    }
}

impl Half for Bf16 {
    const LEAST_NORMAL: f32 = f32::MIN_POSITIVE;

    #[inline(always)]
    fn widen(bits: u32) -> f32 {
        f32::from_bits(bits << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> u32 {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        if value.is_nan() { 0x7fff } else { rounded }
    }
}

/// Rounds to tf32, nearest, ties away from zero (`cvt.rna.tf32.f32`).
#[inline(always)]
pub(crate) fn tf32_away(value: f32) -> f32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x1000) & !0x1fff;
    if bits & 0x7f80_0000 == 0x7f80_0000 { value } else { f32::from_bits(rounded) }
}

/// Rounds to tf32, nearest, ties to even (`cvt.rn.tf32.f32`).
#[inline(always)]
pub(crate) fn tf32_even(value: f32) -> f32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0xfff + (bits >> 13 & 1)) & !0x1fff;
    if bits & 0x7f80_0000 == 0x7f80_0000 { value } else { f32::from_bits(rounded) }
}

/// What a tensor core sees of a tf32 operand: the low 13 bits are not there.
#[inline(always)]
pub(crate) fn tf32_operand(bits: u32) -> f32 {
    f32::from_bits(bits & !0x1fff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_widens_to_what_the_half_crate_says() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (F16::widen(u32::from(bits)), half::f16::from_bits(bits).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{bits:#x}");
            let (ours, theirs) = (Bf16::widen(u32::from(bits)), half::bf16::from_bits(bits).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{bits:#x}");
        }
    }

    #[test]
    fn narrowing_agrees_with_the_half_crate_around_every_half() {
        for bits in (0..=u32::MAX).step_by(997).chain((0..=0xffff).flat_map(near)) {
            let value = f32::from_bits(bits);
            if value.is_nan() {
                assert_eq!((F16::narrow(value), Bf16::narrow(value)), (0x7fff, 0x7fff));
            } else {
                assert_eq!(F16::narrow(value), u32::from(half::f16::from_f32(value).to_bits()), "{bits:#x}");
                assert_eq!(
                    Bf16::narrow(value),
                    u32::from(half::bf16::from_f32(value).to_bits()),
                    "{bits:#x}"
                );
            }
        }
    }

    /// A half, the tie above it, and the numbers on both sides of the tie.
    fn near(half_bits: u32) -> [u32; 4] {
        let bits = half::f16::from_bits(half_bits as u16).to_f32().to_bits();
        [bits, bits.wrapping_add(0xfff), bits.wrapping_add(0x1000), bits.wrapping_add(0x1001)]
    }

    #[test]
    fn a_double_is_rounded_once() {
        // 1 + 2^-11 is a tie between 1 and the next half; a little more must round up, though not by way of f32.
        let above_tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(F16::narrow_f64(above_tie), 0x3c01);
        assert_eq!(F16::narrow(above_tie as f32), 0x3c00);
    }

    #[test]
    fn tf32_rounds_ties_away_or_to_even() {
        let tie = f32::from_bits(0x3f80_1000);
        assert_eq!(tf32_away(tie).to_bits(), 0x3f80_2000);
        assert_eq!(tf32_even(tie).to_bits(), 0x3f80_0000);
        assert_eq!(tf32_away(f32::INFINITY), f32::INFINITY);
        assert_eq!(tf32_operand(0x3f80_1fff), 1.0);
    }
}
