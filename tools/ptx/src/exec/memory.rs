//! Loads, stores and asynchronous copies.

use super::access::{Checked, Fault, Windows};
use super::lanes::{LANES, Lanes, lanes_of, vectorised};
use super::registers::Registers;
use crate::program::{Address, Slot, Space, Word};

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
pub(super) fn bases(windows: &Windows<'_>, space: Space) -> Lanes<u64> {
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
    pub(super) fn load(r: &mut Registers, windows: &mut Windows<'_>, address: Address, bytes: u8, sign: bool, to: &[Slot], mask: u32, blend: u32) -> Result<(), Fault> {
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
    pub(super) fn store(r: &Registers, windows: &mut Windows<'_>, address: Address, bytes: u8, from: &[Slot], mask: u32) -> Result<(), Fault> {
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
pub(super) fn copy(
    r: &Registers,
    windows: &mut Windows<'_>,
    (to, from): (Address, Address),
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
