//! binary32 and binary64 arithmetic.

use super::lanes::{Lanes, map1, map2, map3, vectorised};
use super::registers::Registers;
use super::{convert, half};
use crate::number::rounding::{self, Round};
use crate::number::{minmax, rounding::double, rounding::single};
use crate::program::{FloatBinary, FloatOp, FloatUnary, Long, Mode, Pred, Test, Word};

/// Executes an operation in the lanes of a mask.
#[inline(always)]
pub(super) fn execute(r: &mut Registers, op: FloatOp, mask: u32) {
    match op {
        FloatOp::F32Binary { op, mode, d, a, b } => f32_binary(r, op, mode, d, a, b, mask),
        FloatOp::F64Binary { op, mode, d, a, b } => f64_binary(r, op, mode, d, a, b, mask),
        FloatOp::F32Unary { op, mode, d, a } => f32_unary(r, op, mode, d, a, mask),
        FloatOp::F64Unary { op, d, a, .. } => f64_unary(r, op, d, a, mask),
        FloatOp::F32Fma { mode, d, a, b, c } => f32_fma(r, mode, d, a, b, c, mask),
        FloatOp::F64Fma { mode, d, a, b, c } => f64_fma(r, mode, d, a, b, c, mask),
        FloatOp::HalfBinary { op, kind, pair, mode, d, a, b } => {
            half::half_binary(r, op, kind, pair, mode, d, a, b, mask);
        }
        FloatOp::HalfUnary { op, kind, pair, mode, d, a } => {
            half::half_unary(r, op, kind, pair, mode, d, a, mask);
        }
        FloatOp::HalfFma { kind, pair, mode, d, a, b, c } => {
            half::half_fma(r, kind, pair, mode, d, a, b, c, mask);
        }
        FloatOp::TestF32 { test, d, a } => test_f32(r, test, d, a, mask),
        FloatOp::TestF64 { test, d, a } => test_f64(r, test, d, a, mask),
        FloatOp::Convert { conversion, d, a } => convert::convert(r, conversion, d, a, mask),
        FloatOp::ConvertPair { kind, mode, d, a, b } => convert::convert_pair(r, kind, mode, d, a, b, mask),
        FloatOp::ConvertTf32 { away, relu, d, a } => convert::convert_tf32(r, away, relu, d, a, mask),
    }
}

/// A subnormal number as a zero of its sign.
#[inline(always)]
pub(super) fn flush(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
}

#[inline(always)]
fn flushed(a: &Lanes<u32>, mode: Mode) -> Lanes<u32> {
    if mode.flush { map1::<f32>(a, flush) } else { *a }
}

/// `.sat`: to 0..1, NaN to 0.
#[inline(always)]
pub(super) fn saturate(x: f64) -> f64 {
    if x > 0.0 { x.min(1.0) } else { 0.0 }
}

#[inline(always)]
fn finish_f32(out: Lanes<u32>, mode: Mode) -> Lanes<u32> {
    let out = flushed(&out, mode);
    let out = if mode.saturate {
        map1::<f32>(&out, |x| if x > 0.0 { if x < 1.0 { x } else { 1.0 } } else { 0.0 })
    } else {
        out
    };
    if mode.relu { map1::<f32>(&out, |x| if x < 0.0 { 0.0 } else { x }) } else { out }
}

vectorised! {
    fn f32_binary(r: &mut Registers, op: FloatBinary, mode: Mode, d: Word, a: Word, b: Word, mask: u32) {
        let (a, b) = (&flushed(r.word(a), mode), &flushed(r.word(b), mode));
        let nearest = mode.round == Round::Nearest;
        let out = match op {
            FloatBinary::Add if nearest => map2::<f32>(a, b, |x, y| x + y),
            FloatBinary::Sub if nearest => map2::<f32>(a, b, |x, y| x - y),
            FloatBinary::Mul if nearest => map2::<f32>(a, b, |x, y| x * y),
            FloatBinary::Add => map2::<f32>(a, b, |x, y| single::add(x, y, mode.round)),
            FloatBinary::Sub => map2::<f32>(a, b, |x, y| single::add(x, -y, mode.round)),
            FloatBinary::Mul => map2::<f32>(a, b, |x, y| rounding::mul_f32(x, y, mode.round)),
            FloatBinary::Div => map2::<f32>(a, b, |x, y| x / y),
            FloatBinary::Min => map2::<f32>(a, b, |x, y| minmax::single::min(x, y, mode.keep_nan)),
            FloatBinary::Max => map2::<f32>(a, b, |x, y| minmax::single::max(x, y, mode.keep_nan)),
            // The sign is that of the first operand.
            FloatBinary::CopySign => map2::<f32>(a, b, |x, y| y.copysign(x)),
        };
        r.set_word(d, &finish_f32(out, mode), mask);
    }
}

vectorised! {
    fn f64_binary(r: &mut Registers, op: FloatBinary, mode: Mode, d: Long, a: Long, b: Long, mask: u32) {
        let (a, b) = (r.long(a), r.long(b));
        let nearest = mode.round == Round::Nearest;
        let out = match op {
            FloatBinary::Add if nearest => map2::<f64>(a, b, |x, y| x + y),
            FloatBinary::Sub if nearest => map2::<f64>(a, b, |x, y| x - y),
            FloatBinary::Mul if nearest => map2::<f64>(a, b, |x, y| x * y),
            FloatBinary::Add => map2::<f64>(a, b, |x, y| double::add(x, y, mode.round)),
            FloatBinary::Sub => map2::<f64>(a, b, |x, y| double::add(x, -y, mode.round)),
            FloatBinary::Mul => map2::<f64>(a, b, |x, y| rounding::mul_f64(x, y, mode.round)),
            FloatBinary::Div => map2::<f64>(a, b, |x, y| x / y),
            FloatBinary::Min => map2::<f64>(a, b, |x, y| minmax::double::min(x, y, mode.keep_nan)),
            FloatBinary::Max => map2::<f64>(a, b, |x, y| minmax::double::max(x, y, mode.keep_nan)),
            FloatBinary::CopySign => map2::<f64>(a, b, |x, y| y.copysign(x)),
        };
        r.set_long(d, &out, mask);
    }
}

vectorised! {
    fn f32_fma(r: &mut Registers, mode: Mode, d: Word, a: Word, b: Word, c: Word, mask: u32) {
        if mode == Mode::default() {
            let out = map3::<f32>(r.word(a), r.word(b), r.word(c), f32::mul_add);
            return r.set_word(d, &out, mask);
        }
        let (a, b, c) = (&flushed(r.word(a), mode), &flushed(r.word(b), mode), &flushed(r.word(c), mode));
        let out = if mode.round == Round::Nearest {
            map3::<f32>(a, b, c, f32::mul_add)
        } else {
            map3::<f32>(a, b, c, |x, y, z| rounding::fma_f32(x, y, z, mode.round))
        };
        r.set_word(d, &finish_f32(out, mode), mask);
    }
}

vectorised! {
    fn f64_fma(r: &mut Registers, mode: Mode, d: Long, a: Long, b: Long, c: Long, mask: u32) {
        let (a, b, c) = (r.long(a), r.long(b), r.long(c));
        let out = if mode.round == Round::Nearest {
            map3::<f64>(a, b, c, f64::mul_add)
        } else {
            map3::<f64>(a, b, c, |x, y, z| rounding::fma_f64(x, y, z, mode.round))
        };
        r.set_long(d, &out, mask);
    }
}

/// A unary operation in any float type.
macro_rules! unary {
    ($float:ty, $op:expr, $a:expr) => {
        match $op {
            FloatUnary::Neg => map1::<$float>($a, |x| -x),
            FloatUnary::Abs => map1::<$float>($a, <$float>::abs),
            FloatUnary::Sqrt => map1::<$float>($a, <$float>::sqrt),
            FloatUnary::InverseSqrt => map1::<$float>($a, |x| 1.0 / x.sqrt()),
            FloatUnary::Reciprocal => map1::<$float>($a, |x| 1.0 / x),
            FloatUnary::Exp2 => map1::<$float>($a, <$float>::exp2),
            FloatUnary::Log2 => map1::<$float>($a, <$float>::log2),
            FloatUnary::Sin => map1::<$float>($a, <$float>::sin),
            FloatUnary::Cos => map1::<$float>($a, <$float>::cos),
            FloatUnary::Tanh => map1::<$float>($a, <$float>::tanh),
        }
    };
}
pub(super) use unary;

vectorised! {
    fn f32_unary(r: &mut Registers, op: FloatUnary, mode: Mode, d: Word, a: Word, mask: u32) {
        let a = &flushed(r.word(a), mode);
        let out = unary!(f32, op, a);
        r.set_word(d, &finish_f32(out, mode), mask);
    }
}

vectorised! {
    fn f64_unary(r: &mut Registers, op: FloatUnary, d: Long, a: Long, mask: u32) {
        let a = r.long(a);
        let out = unary!(f64, op, a);
        r.set_long(d, &out, mask);
    }
}

/// `testp` of 32 bits.
fn test_f32(r: &mut Registers, test: Test, d: Pred, a: Word, mask: u32) {
    let a = r.word(a);
    let found = bits(|lane| classified(test, f32::from_bits(a.0[lane]).classify()));
    r.set_pred(d, found, mask);
}

/// `testp` of 64 bits.
fn test_f64(r: &mut Registers, test: Test, d: Pred, a: Long, mask: u32) {
    let a = r.long(a);
    let found = bits(|lane| classified(test, f64::from_bits(a.0[lane]).classify()));
    r.set_pred(d, found, mask);
}

fn bits(of: impl Fn(usize) -> bool) -> u32 {
    (0..super::lanes::LANES).fold(0, |mask, lane| mask | u32::from(of(lane)) << lane)
}

fn classified(test: Test, category: std::num::FpCategory) -> bool {
    use std::num::FpCategory::{Infinite, Nan, Normal, Subnormal};
    match test {
        Test::Finite => !matches!(category, Infinite | Nan),
        Test::Infinite => category == Infinite,
        Test::Number => category != Nan,
        Test::NotANumber => category == Nan,
        Test::Normal => category == Normal,
        Test::Subnormal => category == Subnormal,
    }
}
