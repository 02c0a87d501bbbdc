//! `cvt` between all types.

use super::float::{flush, saturate};
use super::lanes::{Lanes, vectorised};
use super::registers::Registers;
use crate::number::half::{Bf16, F16, Half, tf32_away, tf32_even};
use crate::number::rounding::{self, Round};
use crate::program::{Conversion, HalfKind, Integral, Mode, Number, Slot, Word};

vectorised! {
    pub(super) fn convert(r: &mut Registers, conversion: Conversion, d: Slot, a: Slot, mask: u32) {
        if let (Slot::Word(d), Slot::Word(a)) = (d, a) && common(r, conversion, d, a, mask) {
            return;
        }
        let from = r.any(a);
        let out = Lanes::by_lane(|lane| one(conversion, from.0[lane]));
        r.set_any(d, &out, mask);
    }
}

/// The conversions that kernels are full of; whether this was one.
#[inline(always)]
fn common(r: &mut Registers, conversion: Conversion, d: Word, a: Word, mask: u32) -> bool {
    let Conversion { to, from, mode, integral, .. } = conversion;
    let a = r.word(a);
    if mode != Mode::default() || integral.is_some() {
        return false;
    }
    let out = match (to, from) {
        (Number::F32, Number::Int { bits: 32, signed: true }) => {
            Lanes::by_lane(|lane| (a.0[lane] as i32 as f32).to_bits())
        }
        (Number::F32, Number::F16) => Lanes::by_lane(|lane| F16::widen(a.0[lane]).to_bits()),
        (Number::F32, Number::Bf16) => Lanes::by_lane(|lane| Bf16::widen(a.0[lane]).to_bits()),
        (Number::F16, Number::F32) => Lanes::by_lane(|lane| F16::narrow(f32::from_bits(a.0[lane]))),
        (Number::Bf16, Number::F32) => Lanes::by_lane(|lane| Bf16::narrow(f32::from_bits(a.0[lane]))),
        _ => return false,
    };
    r.set_word(d, &out, mask);
    true
}

/// One lane's conversion.
#[inline(always)]
fn one(conversion: Conversion, bits: u64) -> u64 {
    let Conversion { to, from, mode, integral, fill } = conversion;
    match (from, to) {
        (Number::Int { bits: width, signed }, Number::Int { bits: to_width, signed: to_signed }) => {
            let value = integer(bits, width, signed);
            let value = if mode.saturate { clamp(value, to_width, to_signed) } else { value };
            filled(value as u64, to_width, to_signed, fill)
        }
        (Number::Int { bits: width, signed }, _) => float_of(integer(bits, width, signed), to, mode),
        (_, Number::Int { bits: to_width, signed }) => {
            let value = float(bits, from, mode);
            let whole = integral_of(value, integral.unwrap_or(Integral::Zero));
            let wide = matches!(from, Number::F64) || to_width == 64;
            filled(truncated(whole, to_width, signed, wide), to_width, signed, fill)
        }
        _ => {
            let value = float(bits, from, mode);
            let value = integral.map_or(value, |integral| integral_of(value, integral));
            narrowed(value, to, mode)
        }
    }
}

/// An integer of some width, in more bits than any has.
#[inline(always)]
fn integer(bits: u64, width: u8, signed: bool) -> i128 {
    let unused = 64 - u32::from(width);
    if signed { i128::from((bits << unused) as i64 >> unused) } else { i128::from(bits << unused >> unused) }
}

#[inline(always)]
fn clamp(value: i128, width: u8, signed: bool) -> i128 {
    let (low, high) = range(width, signed);
    value.clamp(low, high)
}

#[inline(always)]
fn range(width: u8, signed: bool) -> (i128, i128) {
    let limit = 1i128 << width;
    if signed { (-(limit / 2), limit / 2 - 1) } else { (0, limit - 1) }
}

/// The low bits of a value, a signed one's sign in the bits of the register above.
#[inline(always)]
fn filled(value: u64, width: u8, signed: bool, fill: u8) -> u64 {
    let unused = 64 - u32::from(width);
    let value = if signed { ((value << unused) as i64 >> unused) as u64 } else { value << unused >> unused };
    let beyond = 64 - u32::from(fill.max(width));
    value << beyond >> beyond
}

/// A float of some type as a double, which holds them all.
#[inline(always)]
fn float(bits: u64, from: Number, mode: Mode) -> f64 {
    match from {
        Number::F16 => f64::from(F16::widen(bits as u32)),
        Number::Bf16 => f64::from(Bf16::widen(bits as u32 & 0xffff)),
        Number::F32 if mode.flush => f64::from(flush(f32::from_bits(bits as u32))),
        Number::F32 => f64::from(f32::from_bits(bits as u32)),
        Number::F64 | Number::Int { .. } => f64::from_bits(bits),
    }
}

#[inline(always)]
fn integral_of(value: f64, integral: Integral) -> f64 {
    match integral {
        Integral::Nearest => value.round_ties_even(),
        Integral::Zero => value.trunc(),
        Integral::Down => value.floor(),
        Integral::Up => value.ceil(),
    }
}

/// A whole number clamped to a type's range. A NaN is 0, or the highest bit alone where 64 bits are involved.
#[inline(always)]
fn truncated(value: f64, width: u8, signed: bool, wide: bool) -> u64 {
    if value.is_nan() {
        return if wide { 1 << (width - 1) } else { 0 };
    }
    let (low, high) = range(width, signed);
    (value as i128).clamp(low, high) as u64
}

/// A double as bits of a float type, rounded once.
#[inline(always)]
fn narrowed(value: f64, to: Number, mode: Mode) -> u64 {
    let value = if mode.saturate { saturate(value) } else { value };
    let value = if mode.relu && value < 0.0 { 0.0 } else { value };
    match to {
        Number::F16 => u64::from(half::<F16>(value, mode.round)),
        Number::Bf16 => u64::from(half::<Bf16>(value, mode.round)),
        Number::F32 => {
            let value = rounding::to_f32(value, mode.round);
            u64::from(if mode.flush { flush(value) } else { value }.to_bits())
        }
        Number::F64 | Number::Int { .. } => value.to_bits(),
    }
}

/// A double as a half. Directed rounding goes to the neighbour of the nearest half where that is on the wrong side.
#[inline(always)]
fn half<H: Half>(value: f64, round: Round) -> u32 {
    let near = H::narrow_f64(value);
    if round == Round::Nearest || !value.is_finite() {
        return near;
    }
    let rounded = f64::from(H::widen(near));
    let outward = match round {
        Round::Up => value > 0.0,
        Round::Down => value < 0.0,
        Round::Zero | Round::Nearest => false,
    };
    match (rounded.abs() > value.abs(), rounded.abs() < value.abs()) {
        (true, _) if !outward => near - 1,
        (_, true) if outward => near + 1,
        _ => near,
    }
}

/// An integer as bits of a float type, rounded once.
#[inline(always)]
fn float_of(value: i128, to: Number, mode: Mode) -> u64 {
    // Up to 53 bits are exact in a double; of more the rest is kept as its last bit, for another rounding.
    match to {
        Number::F64 => {
            let near = value as f64;
            let error = value - near as i128;
            rounding::double::settle(near, error as f64, mode.round).to_bits()
        }
        _ => {
            let excess = (128 - value.unsigned_abs().leading_zeros()).saturating_sub(53);
            let kept = value >> excess;
            let lost = value - (kept << excess) != 0;
            let odd = if lost { kept | 1 } else { kept };
            narrowed(odd as f64 * 2f64.powi(excess as i32), to, mode)
        }
    }
}

vectorised! {
    /// Two binary32 as a pair of halves, the second lowest.
    pub(super) fn convert_pair(
        r: &mut Registers,
        kind: HalfKind,
        mode: Mode,
        d: Word,
        a: Word,
        b: Word,
        mask: u32,
    ) {
        let (a, b) = (r.word(a), r.word(b));
        let narrow = |bits: u32| {
            let value = f32::from_bits(bits);
            let value = if mode.relu && value < 0.0 { 0.0 } else { value };
            match (kind, mode.round == Round::Nearest && !mode.saturate) {
                (HalfKind::F16, true) => F16::narrow(value),
                (HalfKind::Bf16, true) => Bf16::narrow(value),
                (HalfKind::F16, false) => narrowed(f64::from(value), Number::F16, mode) as u32,
                (HalfKind::Bf16, false) => narrowed(f64::from(value), Number::Bf16, mode) as u32,
            }
        };
        let out = Lanes::by_lane(|lane| narrow(a.0[lane]) << 16 | narrow(b.0[lane]));
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    pub(super) fn convert_tf32(r: &mut Registers, away: bool, relu: bool, d: Word, a: Word, mask: u32) {
        let a = r.word(a);
        let out = Lanes::by_lane(|lane| {
            let value = f32::from_bits(a.0[lane]);
            let value = if away { tf32_away(value) } else { tf32_even(value) };
            if relu && value < 0.0 { 0 } else { value.to_bits() }
        });
        r.set_word(d, &out, mask);
    }
}
