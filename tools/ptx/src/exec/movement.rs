//! Moves of data: registers, their pieces, and addresses.

use super::compare;
use super::lanes::{LANES, Lanes, vectorised};
use super::registers::Registers;
use crate::program::{Code, DataOp, Long, Slot, Word};

/// Executes an operation in the lanes of a mask.
#[inline(always)]
pub(super) fn execute(r: &mut Registers, code: &Code, op: DataOp, mask: u32) {
    match op {
        DataOp::SetPred { comparison, d, not_d, logic, with } => {
            compare::set_pred(r, comparison, d, not_d, logic, with, mask);
        }
        DataOp::Set { comparison, to, d, logic, with } => {
            compare::set(r, comparison, to, d, logic, with, mask);
        }
        DataOp::SelectWord { d, a, b, by } => compare::select_word(r, d, a, b, by, mask),
        DataOp::SelectLong { d, a, b, by } => compare::select_long(r, d, a, b, by, mask),
        DataOp::PredLogic { op, d, a, b } => compare::pred_logic(r, op, d, a, b, mask),
        DataOp::MoveWord { d, a } => move_word(r, d, a, mask),
        DataOp::MoveLong { d, a } => move_long(r, d, a, mask),
        DataOp::Pack { d, parts } => pack(r, d, code.list(parts), mask),
        DataOp::Unpack { a, parts } => unpack(r, a, code.list(parts), mask),
    }
}

vectorised! {
    fn move_word(r: &mut Registers, d: Word, a: Word, mask: u32) {
        let value = *r.word(a);
        r.set_word(d, &value, mask);
    }
}

vectorised! {
    fn move_long(r: &mut Registers, d: Long, a: Long, mask: u32) {
        let value = *r.long(a);
        r.set_long(d, &value, mask);
    }
}

fn bits_of(slot: Slot) -> usize {
    match slot {
        Slot::Word(_) => 32,
        Slot::Long(_) => 64,
    }
}

/// Puts pieces of equal size together, the first lowest.
fn pack(r: &mut Registers, d: Slot, parts: &[Slot], mask: u32) {
    let bits = bits_of(d) / parts.len();
    let mut out = Lanes::all(0u64);
    for (place, &part) in parts.iter().enumerate() {
        let part = r.any(part);
        for lane in 0..LANES {
            out.0[lane] |= (part.0[lane] & ((1 << bits) - 1)) << (place * bits);
        }
    }
    r.set_any(d, &out, mask);
}

/// Takes pieces of equal size apart, the first lowest.
fn unpack(r: &mut Registers, a: Slot, parts: &[Slot], mask: u32) {
    let bits = bits_of(a) / parts.len();
    let value = r.any(a);
    for (place, &part) in parts.iter().enumerate() {
        let piece = Lanes::by_lane(|lane| value.0[lane] >> (place * bits) & ((1 << bits) - 1));
        r.set_any(part, &piece, mask);
    }
}

vectorised! {
    /// Adds to addresses, lane by lane.
    pub(super) fn offset(r: &mut Registers, d: Long, a: Long, by: &Lanes<u64>, mask: u32) {
        let a = r.long(a);
        let mut out = Lanes::all(0u64);
        for lane in 0..LANES {
            out.0[lane] = a.0[lane].wrapping_add(by.0[lane]);
        }
        r.set_long(d, &out, mask);
    }
}
