//! `mbarrier`: barriers in shared memory. Their 64 bits are opaque to kernels; here they are
//! arrivals a phase expects (bits 0–19), arrivals still pending (20–39), and the number of the phase (40–63).

use super::access::{Fault, Windows};
use super::lanes::{Lanes, lanes_of};
use super::memory::addresses;
use super::registers::Registers;
use crate::program::{Address, Long, Pred, Word};

const COUNT: u64 = (1 << 20) - 1;

fn pack(expected: u64, pending: u64, phase: u64) -> u64 {
    expected & COUNT | (pending & COUNT) << 20 | phase << 40
}

fn phase(state: u64) -> u64 {
    state >> 40
}

/// `mbarrier.init`
pub(super) fn init(
    r: &Registers,
    windows: &mut Windows<'_>,
    address: Address,
    count: Word,
    mask: u32,
) -> Result<(), Fault> {
    let at = addresses(r, windows, address);
    let count = r.word(count);
    let state = Lanes::by_lane(|lane| pack(u64::from(count.0[lane]), u64::from(count.0[lane]), 0));
    windows.check(address.space, &at, mask, 8)?.write(0, &state);
    Ok(())
}

/// `mbarrier.arrive`: the token is the state before.
pub(super) fn arrive(
    r: &mut Registers,
    windows: &mut Windows<'_>,
    d: Long,
    address: Address,
    count: Word,
    mask: u32,
) -> Result<(), Fault> {
    let at = addresses(r, windows, address);
    let checked = windows.check(address.space, &at, mask, 8)?;
    let count = *r.word(count);
    let mut before = Lanes::all(0);
    for lane in lanes_of(mask) {
        let arriving = u64::from(count.0[lane]);
        before.0[lane] = checked.update(lane, |state| {
            let (expected, pending) = (state & COUNT, state >> 20 & COUNT);
            match pending.saturating_sub(arriving) {
                0 => pack(expected, expected, phase(state).wrapping_add(1)),
                pending => pack(expected, pending, phase(state)),
            }
        });
    }
    r.set_long(d, &before, mask);
    Ok(())
}

/// `mbarrier.test_wait` and `try_wait`: whether the phase of a token is over. Returns whether it is in all lanes.
pub(super) fn test(
    r: &mut Registers,
    windows: &mut Windows<'_>,
    d: Pred,
    address: Address,
    token: Long,
    mask: u32,
) -> Result<bool, Fault> {
    let token = *r.long(token);
    waited(r, windows, d, address, mask, |lane, state| phase(state) != phase(token.0[lane]))
}

/// The same, of the phase before if the parity is that of the phase that runs.
pub(super) fn test_parity(
    r: &mut Registers,
    windows: &mut Windows<'_>,
    d: Pred,
    address: Address,
    parity: Word,
    mask: u32,
) -> Result<bool, Fault> {
    let parity = *r.word(parity);
    waited(r, windows, d, address, mask, |lane, state| phase(state) & 1 != u64::from(parity.0[lane] & 1))
}

fn waited(
    r: &mut Registers,
    windows: &mut Windows<'_>,
    d: Pred,
    address: Address,
    mask: u32,
    over: impl Fn(usize, u64) -> bool,
) -> Result<bool, Fault> {
    let at = addresses(r, windows, address);
    let state = windows.check(address.space, &at, mask, 8)?.read::<u64>(0);
    let done =
        lanes_of(mask).filter(|&lane| over(lane, state.0[lane])).fold(0, |done, lane| done | 1 << lane);
    r.set_pred(d, done, mask);
    Ok(done == mask)
}
