//! What lanes of a warp learn of each other. All lanes that take part are in the mask.

use super::lanes::{LANES, Lanes, lanes_of, vectorised};
use super::registers::Registers;
use crate::program::{Condition, ExchangeOp, Pred, Reduction, Shuffle, Slot, Vote, Word};

/// Executes an operation between the lanes of a mask.
pub(super) fn execute(r: &mut Registers, op: ExchangeOp, mask: u32) {
    match op {
        // To have waited for each other is all.
        ExchangeOp::WarpBarrier { .. } => {}
        ExchangeOp::Shuffle { mode, d, in_range, a, b, clamp, .. } => {
            shuffle(r, &Shuffled { mode, d, in_range, a, b, clamp }, mask);
        }
        ExchangeOp::Vote { vote, d, a, .. } => decide(r, vote, d, a, mask),
        ExchangeOp::Ballot { d, a, .. } => ballot(r, d, a, mask),
        ExchangeOp::MatchAny { d, a, .. } => match_any(r, d, a, mask),
        ExchangeOp::MatchAll { d, all, a, .. } => match_all(r, d, all, a, mask),
        ExchangeOp::Redux { op, d, a, .. } => redux(r, op, d, a, mask),
        ExchangeOp::Elect { d, elected, .. } => elect(r, d, elected, mask),
    }
}

/// The registers of a shuffle.
struct Shuffled {
    mode: Shuffle,
    d: Word,
    in_range: Pred,
    a: Word,
    b: Word,
    clamp: Word,
}

vectorised! {
    /// `shfl.sync`
    fn shuffle(r: &mut Registers, shuffled: &Shuffled, mask: u32) {
        let (a, b, clamp) = (r.word(shuffled.a), r.word(shuffled.b), r.word(shuffled.clamp));
        let mut in_range = 0;
        let from = Lanes::by_lane(|lane| {
            let (this, by) = (lane as u32, b.0[lane] & 31);
            let (limit, segment) = (clamp.0[lane] & 31, clamp.0[lane] >> 8 & 31);
            let (first, last) = (this & segment, this & segment | limit & !segment);
            let (from, inside) = match shuffled.mode {
                Shuffle::Up => (this.wrapping_sub(by), this as i32 - by as i32 >= last as i32),
                Shuffle::Down => (this + by, this + by <= last),
                Shuffle::Butterfly => (this ^ by, this ^ by <= last),
                Shuffle::Index => (first | by & !segment, first | by & !segment <= last),
            };
            in_range |= u32::from(inside) << lane;
            if inside { from & 31 } else { this }
        });
        // The value of a lane that does not take part is undefined; whatever its register holds will do.
        let out = Lanes::by_lane(|lane| a.0[from.0[lane] as usize % LANES]);
        r.set_word(shuffled.d, &out, mask);
        r.set_pred(shuffled.in_range, in_range, mask);
    }
}

/// `vote.sync`
fn decide(r: &mut Registers, vote: Vote, d: Pred, a: Condition, mask: u32) {
    let votes = r.condition(a) & mask;
    let result = match vote {
        Vote::All => votes == mask,
        Vote::Any => votes != 0,
        Vote::Uniform => votes == mask || votes == 0,
    };
    r.set_pred(d, if result { u32::MAX } else { 0 }, mask);
}

/// `vote.sync.ballot`
fn ballot(r: &mut Registers, d: Word, a: Condition, mask: u32) {
    let votes = r.condition(a) & mask;
    r.set_word(d, &Lanes::all(votes), mask);
}

/// `match.any.sync`: the lanes with the same value.
fn match_any(r: &mut Registers, d: Word, a: Slot, mask: u32) {
    let a = r.any(a);
    let out = Lanes::by_lane(|lane| {
        lanes_of(mask).filter(|&other| a.0[other] == a.0[lane]).fold(0, |same, other| same | 1 << other)
    });
    r.set_word(d, &out, mask);
}

/// `match.all.sync`: all lanes if they have the same value, else none.
fn match_all(r: &mut Registers, d: Word, all: Pred, a: Slot, mask: u32) {
    let a = r.any(a);
    let first = a.0[mask.trailing_zeros() as usize & 31];
    let same = lanes_of(mask).all(|lane| a.0[lane] == first);
    r.set_word(d, &Lanes::all(if same { mask } else { 0 }), mask);
    r.set_pred(all, if same { u32::MAX } else { 0 }, mask);
}

/// `redux.sync`
fn redux(r: &mut Registers, op: Reduction, d: Word, a: Word, mask: u32) {
    let a = *r.word(a);
    let combine = |x: u32, y: u32| match op {
        Reduction::Add => x.wrapping_add(y),
        Reduction::Min { signed: false } => x.min(y),
        Reduction::Max { signed: false } => x.max(y),
        Reduction::Min { signed: true } => (x as i32).min(y as i32) as u32,
        Reduction::Max { signed: true } => (x as i32).max(y as i32) as u32,
        Reduction::And => x & y,
        Reduction::Or => x | y,
        Reduction::Xor => x ^ y,
    };
    let result = lanes_of(mask).map(|lane| a.0[lane]).reduce(combine).unwrap_or(0);
    r.set_word(d, &Lanes::all(result), mask);
}

/// `elect.sync`: the lowest lane.
fn elect(r: &mut Registers, d: Word, elected: Pred, mask: u32) {
    let leader = mask.trailing_zeros() & 31;
    r.set_word(d, &Lanes::all(leader), mask);
    r.set_pred(elected, 1 << leader, mask);
}
