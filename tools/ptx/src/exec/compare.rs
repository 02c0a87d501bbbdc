//! Comparisons and selections.

use std::cmp::Ordering;

use super::float::flush;
use super::lanes::{LANES, Lanes, Scalar, test2, vectorised};
use super::registers::Registers;
use crate::number::half::{Bf16, F16, Half};
use crate::program::{
    Comparison, Condition, HalfKind, Int, Logic, Long, Operands, Pred, Relation, SetTo, Word,
};

/// The lanes where a relation holds.
#[inline(always)]
fn related<S: Scalar + PartialOrd>(
    relation: Relation,
    unordered: bool,
    a: &Lanes<S::Slot>,
    b: &Lanes<S::Slot>,
) -> u32 {
    let ordered = match relation {
        Relation::Equal => test2::<S>(a, b, |x, y| x == y),
        // Not `!=`, which is true of NaNs.
        Relation::NotEqual => test2::<S>(a, b, |x, y| x.partial_cmp(&y).is_some_and(Ordering::is_ne)),
        Relation::Less => test2::<S>(a, b, |x, y| x < y),
        Relation::LessEqual => test2::<S>(a, b, |x, y| x <= y),
        Relation::Greater => test2::<S>(a, b, |x, y| x > y),
        Relation::GreaterEqual => test2::<S>(a, b, |x, y| x >= y),
        Relation::Ordered => test2::<S>(a, b, |x, y| x <= y || x > y),
        Relation::Unordered => 0,
    };
    // Only a NaN is neither at most nor more than the other.
    if unordered { ordered | !test2::<S>(a, b, |x, y| x <= y || x > y) } else { ordered }
}

#[inline(always)]
fn widened(kind: HalfKind, a: &Lanes<u32>) -> Lanes<u32> {
    match kind {
        HalfKind::F16 => Lanes::by_lane(|lane| F16::widen(a.0[lane]).to_bits()),
        HalfKind::Bf16 => Lanes::by_lane(|lane| Bf16::widen(a.0[lane]).to_bits()),
    }
}

vectorised! {
    fn compare(r: &Registers, comparison: Comparison) -> u32 {
        let Comparison { relation, unordered, flush: flushes, operands } = comparison;
        match operands {
            Operands::Words { int, a, b } => {
                let (a, b) = (r.word(a), r.word(b));
                match int {
                    Int::S16 => related::<i16>(relation, false, a, b),
                    Int::S32 => related::<i32>(relation, false, a, b),
                    _ => related::<u32>(relation, false, a, b),
                }
            }
            Operands::Longs { signed, a, b } => {
                let (a, b) = (r.long(a), r.long(b));
                if signed { related::<i64>(relation, false, a, b) } else { related::<u64>(relation, false, a, b) }
            }
            Operands::F32 { a, b } if flushes => {
                let [a, b] = [a, b].map(|slot| {
                    Lanes::by_lane(|lane| flush(f32::from_bits(r.word(slot).0[lane])).to_bits())
                });
                related::<f32>(relation, unordered, &a, &b)
            }
            Operands::F32 { a, b } => related::<f32>(relation, unordered, r.word(a), r.word(b)),
            Operands::F64 { a, b } => related::<f64>(relation, unordered, r.long(a), r.long(b)),
            Operands::Half { kind, a, b } => {
                related::<f32>(relation, unordered, &widened(kind, r.word(a)), &widened(kind, r.word(b)))
            }
        }
    }
}

fn combine(logic: Logic, a: u32, b: u32) -> u32 {
    match logic {
        Logic::And => a & b,
        Logic::Or => a | b,
        Logic::Xor => a ^ b,
    }
}

/// `setp`
pub(super) fn set_pred(
    r: &mut Registers,
    comparison: Comparison,
    d: Pred,
    not_d: Pred,
    logic: Logic,
    with: Condition,
    mask: u32,
) {
    let (found, with) = (compare(r, comparison), r.condition(with));
    r.set_pred(d, combine(logic, found, with), mask);
    r.set_pred(not_d, combine(logic, !found, with), mask);
}

/// `set`
pub(super) fn set(
    r: &mut Registers,
    comparison: Comparison,
    to: SetTo,
    d: Word,
    logic: Logic,
    with: Condition,
    mask: u32,
) {
    let found = combine(logic, compare(r, comparison), r.condition(with));
    let one = match to {
        SetTo::Ones => u32::MAX,
        SetTo::One(bits) => bits,
    };
    r.set_word(d, &Lanes::by_lane(|lane| if found >> lane & 1 == 1 { one } else { 0 }), mask);
}

/// Logic of predicates.
pub(super) fn pred_logic(r: &mut Registers, op: Logic, d: Pred, a: Condition, b: Condition, mask: u32) {
    let out = combine(op, r.condition(a), r.condition(b));
    r.set_pred(d, out, mask);
}

vectorised! {
    pub(super) fn select_word(r: &mut Registers, d: Word, a: Word, b: Word, by: Pred, mask: u32) {
        let (a, b, by) = (r.word(a), r.word(b), r.pred(by));
        let mut out = Lanes::all(0);
        for lane in 0..LANES {
            out.0[lane] = if by >> lane & 1 == 1 { a.0[lane] } else { b.0[lane] };
        }
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    pub(super) fn select_long(r: &mut Registers, d: Long, a: Long, b: Long, by: Pred, mask: u32) {
        let (a, b, by) = (r.long(a), r.long(b), r.pred(by));
        let mut out = Lanes::all(0);
        for lane in 0..LANES {
            out.0[lane] = if by >> lane & 1 == 1 { a.0[lane] } else { b.0[lane] };
        }
        r.set_long(d, &out, mask);
    }
}
