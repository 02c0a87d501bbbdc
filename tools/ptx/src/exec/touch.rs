//! Tells which sectors of global memory an operation is about to access.

use super::access::Windows;
use super::atomic;
use super::lanes::lanes_of;
use super::memory::addresses;
use super::registers::Registers;
use crate::program::{Address, MemoryOp, Space};
use crate::sectors::Touch;

/// Notes the accesses of an operation, before it replaces a register that holds an address.
#[cold]
pub(super) fn note(r: &Registers, windows: &Windows<'_>, op: MemoryOp, mask: u32) {
    match op {
        MemoryOp::Load { address, bytes, to, .. } => {
            all(r, windows, address, u64::from(bytes) * u64::from(to.len), Touch::Read, mask);
        }
        MemoryOp::Store { address, bytes, from } => {
            all(r, windows, address, u64::from(bytes) * u64::from(from.len), Touch::Write, mask);
        }
        MemoryOp::Atomic { address, ty, .. } => {
            all(r, windows, address, atomic::size(ty) as u64, Touch::Update, mask);
        }
        MemoryOp::CopyAsync { from, length, bytes, .. } => {
            let length = *r.word(length);
            for lane in lanes_of(mask).filter(|&lane| length.0[lane] > 0) {
                let bytes = u64::from(bytes).min(u64::from(length.0[lane]));
                all(r, windows, from, bytes, Touch::Read, 1 << lane);
            }
        }
        _ => {}
    }
}

/// The same access by every thread of a mask.
fn all(r: &Registers, windows: &Windows<'_>, address: Address, bytes: u64, touch: Touch, mask: u32) {
    let Some(sectors) = windows.sectors else { return };
    if !matches!(address.space, Space::Global | Space::Generic) {
        return;
    }
    let at = addresses(r, windows, address);
    let is_module = |at: u64| at >= windows.module.0 && at < windows.module.1;
    let global = lanes_of(mask).filter(|&lane| windows.space_of(lane, at.0[lane]) == Space::Global);
    sectors.touch(global.map(|lane| at.0[lane]).filter(|at| !is_module(*at)), bytes, touch);
}
