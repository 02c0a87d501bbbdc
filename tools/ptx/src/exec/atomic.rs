//! `atom` and `red`.

use super::access::{Fault, Windows};
use super::lanes::{Lanes, lanes_of};
use super::memory::addresses;
use super::registers::Registers;
use crate::number::half::{Bf16, F16, Half};
use crate::number::{minmax, rounding};
use crate::program::{AtomicKind, AtomicType, HalfKind, Int, MemoryOp};

pub(super) fn size(ty: AtomicType) -> usize {
    match ty {
        AtomicType::Int(Int::U16 | Int::S16) | AtomicType::Half(_) => 2,
        AtomicType::Int(Int::U32 | Int::S32) | AtomicType::F32 | AtomicType::HalfPair(_) => 4,
        AtomicType::Int(Int::U64 | Int::S64) | AtomicType::F64 => 8,
    }
}

/// Updates memory, lane after lane; returns the bytes of each access.
pub(super) fn update(
    r: &mut Registers,
    windows: &mut Windows<'_>,
    operation: MemoryOp,
    mask: u32,
) -> Result<usize, Fault> {
    let MemoryOp::Atomic { op, ty, d, address, b, c } = operation else { return Ok(0) };
    let at = addresses(r, windows, address);
    let bytes = size(ty);
    let checked = windows.check(address.space, &at, mask, bytes)?;
    let (b, c) = (r.any(b), r.any(c));
    let mut before = Lanes::all(0);
    for lane in lanes_of(mask) {
        let (b, c) = (b.0[lane], c.0[lane]);
        before.0[lane] = checked.update(lane, |old| next(op, ty, old, b, c));
    }
    r.set_any(d, &before, mask);
    Ok(bytes)
}

/// What takes the place of a value.
fn next(op: AtomicKind, ty: AtomicType, old: u64, b: u64, c: u64) -> u64 {
    match (op, ty) {
        (AtomicKind::Exchange, _) => b,
        (AtomicKind::CompareAndSwap, _) => {
            let narrow = 64 - 8 * size(ty) as u32;
            if old == b << narrow >> narrow { c } else { old }
        }
        (_, AtomicType::Int(int)) => next_int(op, int, old, b),
        (_, AtomicType::F32) => u64::from((f32::from_bits(old as u32) + f32::from_bits(b as u32)).to_bits()),
        (_, AtomicType::F64) => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        (_, AtomicType::Half(kind)) => u64::from(next_half(op, kind, old as u32, b as u32)),
        (_, AtomicType::HalfPair(kind)) => {
            let low = next_half(op, kind, old as u32 & 0xffff, b as u32 & 0xffff);
            let high = next_half(op, kind, old as u32 >> 16, b as u32 >> 16);
            u64::from(high << 16 | low)
        }
    }
}

fn next_int(op: AtomicKind, int: Int, old: u64, b: u64) -> u64 {
    let signed_32 = |x: u64| i64::from(x as i32);
    match (op, int) {
        (AtomicKind::Add, _) => old.wrapping_add(b),
        (AtomicKind::And, _) => old & b,
        (AtomicKind::Or, _) => old | b,
        (AtomicKind::Xor, _) => old ^ b,
        (AtomicKind::Min, Int::S32) => signed_32(old).min(signed_32(b)) as u64,
        (AtomicKind::Max, Int::S32) => signed_32(old).max(signed_32(b)) as u64,
        (AtomicKind::Min, Int::S64) => (old as i64).min(b as i64) as u64,
        (AtomicKind::Max, Int::S64) => (old as i64).max(b as i64) as u64,
        (AtomicKind::Min, _) => old.min(b),
        (AtomicKind::Max, _) => old.max(b),
        (AtomicKind::Increment, _) => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        (AtomicKind::Decrement, _) => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
        // Handled for all types before.
        (AtomicKind::Exchange | AtomicKind::CompareAndSwap, _) => old,
    }
}

fn next_half(op: AtomicKind, kind: HalfKind, old: u32, b: u32) -> u32 {
    fn of<H: Half>(op: AtomicKind, old: u32, b: u32) -> u32 {
        let (x, y) = (H::widen(old), H::widen(b));
        match op {
            AtomicKind::Min => H::narrow(minmax::single::min(x, y, false)),
            AtomicKind::Max => H::narrow(minmax::single::max(x, y, false)),
            _ => H::narrow_f64(rounding::add_odd(f64::from(x), f64::from(y))),
        }
    }
    match kind {
        HalfKind::F16 => of::<F16>(op, old, b),
        HalfKind::Bf16 => of::<Bf16>(op, old, b),
    }
}
