//! Arithmetic in 16-bit floats, one or two in a register.

use super::float::{saturate, unary};
use super::lanes::{LANES, Lanes, map1, vectorised};
use super::registers::Registers;
use crate::number::half::{Bf16, F16, Half};
use crate::number::{minmax, rounding};
use crate::program::{FloatBinary, FloatUnary, HalfKind, Mode, Word};

/// Rounds a result once, and clamps it as the mode asks.
#[inline(always)]
fn finish<H: Half>(value: f64, mode: Mode) -> u32 {
    let value = if mode.saturate { saturate(value) } else { value };
    let bits = H::narrow_f64(if mode.relu && value < 0.0 { 0.0 } else { value });
    if mode.flush && H::widen(bits).abs() < H::LEAST_NORMAL { bits & 0x8000 } else { bits }
}

/// An operand, a subnormal one as zero where the mode asks for that.
#[inline(always)]
fn operand<H: Half>(bits: u32, mode: Mode) -> f32 {
    let value = H::widen(bits & 0xffff);
    if mode.flush && value.abs() < H::LEAST_NORMAL { 0f32.copysign(value) } else { value }
}

/// Sums of halves may be rounded to binary32 first, which has more than twice their bits and the same subnormals or
/// more; products of two bfloat16 may fall below those, and are exact in binary64.
#[inline(always)]
fn binary<H: Half>(op: FloatBinary, mode: Mode, a: u32, b: u32) -> u32 {
    let (x, y) = (operand::<H>(a, mode), operand::<H>(b, mode));
    let (wide_x, wide_y) = (f64::from(x), f64::from(y));
    match op {
        FloatBinary::Add if mode == Mode::default() => H::narrow(x + y),
        FloatBinary::Sub if mode == Mode::default() => H::narrow(x - y),
        FloatBinary::Add => finish::<H>(f64::from(x + y), mode),
        FloatBinary::Sub => finish::<H>(f64::from(x - y), mode),
        FloatBinary::Mul => finish::<H>(wide_x * wide_y, mode),
        FloatBinary::Div => finish::<H>(wide_x / wide_y, mode),
        FloatBinary::Min => H::narrow(minmax::single::min(x, y, mode.keep_nan)),
        FloatBinary::Max => H::narrow(minmax::single::max(x, y, mode.keep_nan)),
        FloatBinary::CopySign => H::narrow(y.copysign(x)),
    }
}

#[inline(always)]
fn fma<H: Half>(mode: Mode, a: u32, b: u32, c: u32) -> u32 {
    let (x, y) = (f64::from(operand::<H>(a, mode)), f64::from(operand::<H>(b, mode)));
    let z = f64::from(operand::<H>(c, mode));
    finish::<H>(rounding::add_odd(x * y, z), mode)
}

/// One half of each register, or both. Without closures, which would not become part of the vector loop.
macro_rules! halves {
    ($pair:expr, |$lane:ident, $shift:ident| $half:expr) => {{
        let mut out = Lanes::all(0u32);
        for part in 0..1 + u32::from($pair) {
            let $shift = 16 * part;
            for $lane in 0..LANES {
                out.0[$lane] |= ($half & 0xffff) << $shift;
            }
        }
        out
    }};
}

vectorised! {
    pub(super) fn half_binary(
        r: &mut Registers,
        op: FloatBinary,
        kind: HalfKind,
        pair: bool,
        mode: Mode,
        d: Word,
        a: Word,
        b: Word,
        mask: u32,
    ) {
        let (a, b) = (r.word(a), r.word(b));
        let out = match kind {
            HalfKind::F16 => halves!(pair, |l, at| binary::<F16>(op, mode, a.0[l] >> at, b.0[l] >> at)),
            HalfKind::Bf16 => halves!(pair, |l, at| binary::<Bf16>(op, mode, a.0[l] >> at, b.0[l] >> at)),
        };
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    pub(super) fn half_fma(
        r: &mut Registers,
        kind: HalfKind,
        pair: bool,
        mode: Mode,
        d: Word,
        a: Word,
        b: Word,
        c: Word,
        mask: u32,
    ) {
        let (a, b, c) = (r.word(a), r.word(b), r.word(c));
        let out = match kind {
            HalfKind::F16 => halves!(pair, |l, at| fma::<F16>(mode, a.0[l] >> at, b.0[l] >> at, c.0[l] >> at)),
            HalfKind::Bf16 => halves!(pair, |l, at| fma::<Bf16>(mode, a.0[l] >> at, b.0[l] >> at, c.0[l] >> at)),
        };
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    pub(super) fn half_unary(
        r: &mut Registers,
        op: FloatUnary,
        kind: HalfKind,
        pair: bool,
        mode: Mode,
        d: Word,
        a: Word,
        mask: u32,
    ) {
        let a = r.word(a);
        let out = match op {
            // Signs change without a look at the number, which may be a NaN.
            FloatUnary::Neg => map1::<u32>(a, |x| x ^ if pair { 0x8000_8000 } else { 0x8000 }),
            FloatUnary::Abs => map1::<u32>(a, |x| x & if pair { 0x7fff_7fff } else { 0x7fff }),
            _ => wide_unary(op, kind, pair, mode, a),
        };
        r.set_word(d, &out, mask);
    }
}

/// By way of binary32, which is exact enough to be rounded again.
#[inline(always)]
fn wide_unary(op: FloatUnary, kind: HalfKind, pair: bool, mode: Mode, a: &Lanes<u32>) -> Lanes<u32> {
    let widen = |bits: u32| match kind {
        HalfKind::F16 => operand::<F16>(bits, mode),
        HalfKind::Bf16 => operand::<Bf16>(bits, mode),
    };
    let narrow = |bits: u32| match kind {
        HalfKind::F16 => finish::<F16>(f64::from(f32::from_bits(bits)), mode),
        HalfKind::Bf16 => finish::<Bf16>(f64::from(f32::from_bits(bits)), mode),
    };
    let low = Lanes::by_lane(|lane| widen(a.0[lane]).to_bits());
    let low = unary!(f32, op, &low);
    let mut out = Lanes::by_lane(|lane| narrow(low.0[lane]));
    if pair {
        let high = Lanes::by_lane(|lane| widen(a.0[lane] >> 16).to_bits());
        let high = unary!(f32, op, &high);
        for (lane, out) in out.0.iter_mut().enumerate() {
            *out |= narrow(high.0[lane]) << 16;
        }
    }
    out
}
