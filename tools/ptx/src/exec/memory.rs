//! Loads, stores and asynchronous copies.

use super::access::{Checked, Fault, Windows};
use super::lanes::{LANES, Lanes, lanes_of, vectorised};
use super::registers::Registers;
use super::{atomic, movement, phase, touch};
use crate::Executed;
use crate::program::{Address, Code, MemoryOp, Slot, Space, Word};

/// What an access needs besides its operation.
pub(super) struct Machine<'m, 'l> {
    pub(super) r: &'m mut Registers,
    pub(super) windows: &'m mut Windows<'l>,
    pub(super) code: &'l Code,
    pub(super) executed: &'m mut Executed,
    /// The lanes that access memory.
    pub(super) mask: u32,
    /// The lanes to write, which may be more where the others do not matter.
    pub(super) blend: u32,
}

/// Executes an operation; false where it is a wait that is not over, and other warps should have a turn.
#[inline(always)]
pub(super) fn execute(machine: Machine<'_, '_>, op: MemoryOp) -> Result<bool, Fault> {
    let Machine { r, windows, code, executed, mask, blend } = machine;
    let lanes = u64::from(mask.count_ones());
    if windows.sectors.is_some() {
        touch::note(r, windows, op, mask);
    }
    let counted = |space| if matches!(space, Space::Global | Space::Generic) { lanes } else { 0 };
    match op {
        MemoryOp::Load { address, bytes, sign, to } => {
            executed.global_bytes_read += counted(address.space) * u64::from(bytes) * u64::from(to.len);
            load(r, windows, address, bytes, sign, code.list(to), mask, blend)?;
        }
        MemoryOp::Store { address, bytes, from } => {
            executed.global_bytes_written += counted(address.space) * u64::from(bytes) * u64::from(from.len);
            store(r, windows, address, bytes, code.list(from), mask)?;
        }
        MemoryOp::Atomic { address, .. } => {
            let bytes = atomic::update(r, windows, op, mask)? as u64 * counted(address.space);
            executed.global_bytes_read += bytes;
            executed.global_bytes_written += bytes;
        }
        MemoryOp::CopyAsync { to, from, bytes, length } => {
            executed.global_bytes_read += copy(r, windows, to, from, usize::from(bytes), length, mask)?;
        }
        _ => return execute_address(r, windows, op, mask),
    }
    Ok(true)
}

/// Conversions of addresses, and barriers in memory.
fn execute_address(
    r: &mut Registers,
    windows: &mut Windows<'_>,
    op: MemoryOp,
    mask: u32,
) -> Result<bool, Fault> {
    match op {
        MemoryOp::ToGeneric { space, d, a } => movement::offset(r, d, a, &bases(windows, space), mask),
        MemoryOp::FromGeneric { space, d, a } => {
            let bases = bases(windows, space);
            let back = Lanes::by_lane(|lane| bases.0[lane].wrapping_neg());
            movement::offset(r, d, a, &back, mask);
        }
        MemoryOp::IsSpace { space, d, a } => {
            let a = r.long(a).0;
            let inside = lanes_of(mask).filter(|&lane| windows.space_of(lane, a[lane]) == space);
            let inside = inside.fold(0, |inside, lane| inside | 1 << lane);
            r.set_pred(d, inside, mask);
        }
        MemoryOp::PhaseInit { address, count } => phase::init(r, windows, address, count, mask)?,
        MemoryOp::PhaseArrive { d, address, count } => phase::arrive(r, windows, d, address, count, mask)?,
        MemoryOp::PhaseTest { d, address, token } => return phase::test(r, windows, d, address, token, mask),
        MemoryOp::PhaseTestParity { d, address, parity } => {
            return phase::test_parity(r, windows, d, address, parity, mask);
        }
        // Executed by the caller.
        MemoryOp::Load { .. }
        | MemoryOp::Store { .. }
        | MemoryOp::Atomic { .. }
        | MemoryOp::CopyAsync { .. } => {}
    }
    Ok(true)
}

/// Where spaces with addresses of their own begin.
#[inline(always)]
fn base(windows: &Windows<'_>, space: Space) -> u64 {
    match space {
        Space::Generic | Space::Global => 0,
        Space::Shared => windows.shared.0,
        Space::Parameter => windows.parameters.0,
        Space::Local => windows.local,
    }
}

/// What to add to an address of a space to make it generic, in every lane.
#[inline(always)]
fn bases(windows: &Windows<'_>, space: Space) -> Lanes<u64> {
    let stride = if space == Space::Local { windows.local_bytes } else { 0 };
    let base = base(windows, space);
    Lanes::by_lane(|lane| base + lane as u64 * stride)
}

/// The addresses of an operand, as addresses of this process.
#[inline(always)]
pub(super) fn addresses(r: &Registers, windows: &Windows<'_>, address: Address) -> Lanes<u64> {
    let offset = i64::from(address.offset) as u64;
    let mut out = Lanes::all(0u64);
    if let (Space::Global | Space::Generic, Slot::Long(slot)) = (address.space, address.base) {
        let slot = r.long(slot);
        for lane in 0..LANES {
            out.0[lane] = slot.0[lane].wrapping_add(offset);
        }
        return out;
    }
    let bases = bases(windows, address.space);
    match address.base {
        Slot::Long(slot) => {
            let slot = r.long(slot);
            for lane in 0..LANES {
                out.0[lane] = slot.0[lane].wrapping_add(offset).wrapping_add(bases.0[lane]);
            }
        }
        Slot::Word(slot) => {
            let slot = r.word(slot);
            for lane in 0..LANES {
                let own = slot.0[lane].wrapping_add(offset as u32);
                out.0[lane] = u64::from(own).wrapping_add(bases.0[lane]);
            }
        }
    }
    out
}

#[inline(always)]
fn load_part(
    r: &mut Registers,
    checked: &Checked<'_>,
    bytes: u8,
    sign: bool,
    place: usize,
    to: Slot,
    mask: u32,
) {
    let offset = place * usize::from(bytes);
    match (to, bytes) {
        (Slot::Word(to), 4) => {
            let value = checked.read::<u32>(offset);
            r.set_word(to, &value, mask);
        }
        (Slot::Long(to), 8) => {
            let value = checked.read::<u64>(offset);
            r.set_long(to, &value, mask);
        }
        (to, 1) => {
            let value = checked.read::<u8>(offset);
            let value = Lanes::by_lane(|lane| {
                if sign { i64::from(value.0[lane] as i8) as u64 } else { u64::from(value.0[lane]) }
            });
            r.set_any(to, &value, mask);
        }
        (to, 2) => {
            let value = checked.read::<u16>(offset);
            let value = Lanes::by_lane(|lane| {
                if sign { i64::from(value.0[lane] as i16) as u64 } else { u64::from(value.0[lane]) }
            });
            r.set_any(to, &value, mask);
        }
        (to, 4) => {
            let value = checked.read::<u32>(offset);
            let value = Lanes::by_lane(|lane| {
                if sign { i64::from(value.0[lane] as i32) as u64 } else { u64::from(value.0[lane]) }
            });
            r.set_any(to, &value, mask);
        }
        (to, _) => {
            let value = checked.read::<u64>(offset);
            r.set_any(to, &value, mask);
        }
    }
}

vectorised! {
    /// `ld`; `blend` is the mask, or all ones where the other lanes do not matter.
    fn load(
        r: &mut Registers,
        windows: &mut Windows<'_>,
        address: Address,
        bytes: u8,
        sign: bool,
        to: &[Slot],
        mask: u32,
        blend: u32,
    ) -> Result<(), Fault> {
        let at = addresses(r, windows, address);
        let checked = windows.check(address.space, &at, mask, usize::from(bytes) * to.len())?;
        for (place, &slot) in to.iter().enumerate() {
            load_part(r, &checked, bytes, sign, place, slot, blend);
        }
        Ok(())
    }
}

vectorised! {
    /// `st`
    fn store(
        r: &Registers,
        windows: &mut Windows<'_>,
        address: Address,
        bytes: u8,
        from: &[Slot],
        mask: u32,
    ) -> Result<(), Fault> {
        let at = addresses(r, windows, address);
        let checked = windows.check(address.space, &at, mask, usize::from(bytes) * from.len())?;
        for (place, &slot) in from.iter().enumerate() {
            let offset = place * usize::from(bytes);
            match (slot, bytes) {
                (Slot::Word(slot), 4) => checked.write(offset, r.word(slot)),
                (Slot::Long(slot), 8) => checked.write(offset, r.long(slot)),
                (slot, 1) => {
                    let value = r.any(slot);
                    checked.write(offset, &Lanes::by_lane(|lane| value.0[lane] as u8));
                }
                (slot, 2) => {
                    let value = r.any(slot);
                    checked.write(offset, &Lanes::by_lane(|lane| value.0[lane] as u16));
                }
                (slot, 4) => {
                    let value = r.any(slot);
                    checked.write(offset, &Lanes::by_lane(|lane| value.0[lane] as u32));
                }
                (slot, _) => checked.write(offset, &r.any(slot)),
            }
        }
        Ok(())
    }
}

/// `cp.async`, complete at once: what is not read of the source is written as zeros. Returns the bytes read.
fn copy(
    r: &Registers,
    windows: &mut Windows<'_>,
    to: Address,
    from: Address,
    bytes: usize,
    length: Word,
    mask: u32,
) -> Result<u64, Fault> {
    let (to_at, from_at) = (addresses(r, windows, to), addresses(r, windows, from));
    let length = *r.word(length);
    // A source of which nothing is read need not exist, though it is to be aligned.
    let partial = |lane: usize| (length.0[lane] as usize).min(bytes);
    for lane in lanes_of(mask) {
        let mut data = [0u8; 16];
        let wanted = partial(lane);
        if wanted > 0 {
            windows.check(from.space, &from_at, 1 << lane, wanted)?.read_bytes(lane, &mut data[..wanted]);
        }
        if from_at.0[lane] % bytes as u64 != 0 {
            return Err(Fault::Misaligned { address: from_at.0[lane], bytes });
        }
        windows.check(to.space, &to_at, 1 << lane, bytes)?.write_bytes(lane, &data[..bytes]);
    }
    Ok(lanes_of(mask).map(|lane| partial(lane) as u64).sum())
}
