//! Raw memory: the one place where addresses of kernels are read and written.
//!
//! [`Windows::check`] is the only way to a [`Checked`] set of addresses, so that all that follows is within memory that
//! exists and aligned. Kernels that race write bytes that are as undefined here as on a device.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::lanes::{LANES, Lanes, lanes_of};
use crate::program::Space;
use crate::{GlobalMemory, Sectors};

/// Memory that belongs to the interpreter: shared and local memory, and the data of a module.
pub(crate) struct Arena {
    address: u64,
    layout: Layout,
}

// SAFETY: an arena only owns its bytes; who may touch them is up to those who know its address.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Zeroed memory, aligned to the largest access there is.
    pub(crate) fn new(bytes: usize) -> Arena {
        let bytes = bytes.max(1).next_multiple_of(256);
        let Ok(layout) = Layout::from_size_align(bytes, 256) else { handle_alloc_error(Layout::new::<u8>()) };
        // SAFETY: the layout is not of size zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Arena { address: start.expose_provenance() as u64, layout }
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Copies bytes to the start of the memory.
    pub(crate) fn fill(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(self.layout.size());
        // SAFETY: the arena has that many bytes, and `&mut self` says that no kernel runs on them.
        unsafe { pointer::<u8>(self.address).copy_from_nonoverlapping(bytes.as_ptr(), count) };
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(pointer(self.address), self.layout) };
    }
}

#[inline(always)]
fn pointer<T>(address: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// Why an access was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Illegal { address: u64, bytes: usize },
    Misaligned { address: u64, bytes: usize },
}

/// The memory that a warp can reach, as ranges of addresses.
#[derive(Clone)]
pub(crate) struct Windows<'m> {
    pub(crate) global: &'m dyn GlobalMemory,
    pub(crate) module: (u64, u64),
    pub(crate) parameters: (u64, u64),
    pub(crate) shared: (u64, u64),
    /// The first lane's local memory; others follow.
    pub(crate) local: u64,
    pub(crate) local_bytes: u64,
    /// The allocation of the last access.
    pub(crate) recent: (u64, u64),
    /// What is told of accesses to global memory.
    pub(crate) sectors: Option<&'m Sectors>,
}

/// How the addresses of all lanes lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// All at the same place.
    Uniform,
    /// One behind another.
    Consecutive,
    /// Anywhere, or not of all lanes.
    Scattered,
}

impl Pattern {
    #[inline(always)]
    fn of(addresses: &Lanes<u64>, mask: u32, bytes: usize) -> Pattern {
        let first = addresses.0[0];
        let (mut from_first, mut from_row) = (0, 0);
        for lane in 0..LANES {
            from_first |= addresses.0[lane] ^ first;
            from_row |= addresses.0[lane] ^ first.wrapping_add((lane * bytes) as u64);
        }
        match (mask == u32::MAX, from_first == 0, from_row == 0) {
            (true, true, _) => Pattern::Uniform,
            (true, _, true) => Pattern::Consecutive,
            _ => Pattern::Scattered,
        }
    }
}

/// Addresses of the lanes of a mask, at each of which some bytes may be read and written.
pub(crate) struct Checked<'a> {
    addresses: &'a Lanes<u64>,
    mask: u32,
    bytes: usize,
    pattern: Pattern,
}

impl Windows<'_> {
    /// Allows an access of `bytes` at every address of the mask, if all of them are in memory and aligned.
    #[inline(always)]
    pub(crate) fn check<'a>(
        &mut self,
        space: Space,
        addresses: &'a Lanes<u64>,
        mask: u32,
        bytes: usize,
    ) -> Result<Checked<'a>, Fault> {
        let pattern = Pattern::of(addresses, mask, bytes);
        let window = match space {
            Space::Shared => self.shared,
            Space::Parameter => self.parameters,
            // Each lane's is a window of its own, so there the distance from its start counts.
            Space::Local => (0, self.local_bytes),
            Space::Global | Space::Generic => self.recent,
        };
        let first = addresses.0[0];
        let (low, high, any) = match pattern {
            Pattern::Uniform if space != Space::Local => (first, first, first),
            // As far apart as they are large, all are aligned where the first is.
            Pattern::Consecutive if space != Space::Local => (first, addresses.0[LANES - 1], first),
            _ => self.extent(space, addresses, mask),
        };
        let inside = low >= window.0 && high < window.1 && window.1 - high >= bytes as u64;
        if !inside || any & (alignment(bytes) - 1) != 0 {
            self.check_lanes(space, addresses, mask, bytes)?;
        }
        Ok(Checked { addresses, mask, bytes, pattern })
    }

    /// The lowest and the highest address of a mask, and all bits that are set in any.
    #[inline(always)]
    fn extent(&self, space: Space, addresses: &Lanes<u64>, mask: u32) -> (u64, u64, u64) {
        let (start, stride) = if space == Space::Local { (self.local, self.local_bytes) } else { (0, 0) };
        let (mut low, mut high, mut any) = (u64::MAX, 0, 0);
        for lane in 0..LANES {
            let active = u64::from(mask >> lane & 1).wrapping_neg();
            let address = addresses.0[lane];
            let place = address.wrapping_sub(start + lane as u64 * stride);
            low = low.min(place | !active);
            high = high.max(place & active);
            any |= address & active;
        }
        (low, high, any)
    }

    /// The state space that a lane's generic address is in.
    pub(crate) fn space_of(&self, lane: usize, address: u64) -> Space {
        let within = |window: (u64, u64)| address >= window.0 && address < window.1;
        let local = self.local + lane as u64 * self.local_bytes;
        if within(self.shared) {
            Space::Shared
        } else if within((local, local + self.local_bytes)) {
            Space::Local
        } else if within(self.parameters) {
            Space::Parameter
        } else {
            Space::Global
        }
    }

    #[cold]
    #[inline(never)]
    fn check_lanes(
        &mut self,
        space: Space,
        addresses: &Lanes<u64>,
        mask: u32,
        bytes: usize,
    ) -> Result<(), Fault> {
        for lane in lanes_of(mask) {
            let address = addresses.0[lane];
            if address & (alignment(bytes) - 1) != 0 {
                return Err(Fault::Misaligned { address, bytes });
            }
            let end = address.checked_add(bytes as u64);
            let within = |window: (u64, u64)| address >= window.0 && end.is_some_and(|end| end <= window.1);
            let local = self.local + lane as u64 * self.local_bytes;
            let local = (local, local + self.local_bytes);
            let own = match space {
                Space::Shared => within(self.shared),
                Space::Local => within(local),
                Space::Parameter => within(self.parameters),
                Space::Global => within(self.module),
                Space::Generic => [self.module, self.parameters, self.shared, local].into_iter().any(within),
            };
            let global = matches!(space, Space::Global | Space::Generic);
            if own || global && within(self.recent) {
                continue;
            }
            match self.global.allocation(address).filter(|&window| global && within(window)) {
                Some(window) => self.recent = window,
                None => return Err(Fault::Illegal { address, bytes }),
            }
        }
        Ok(())
    }
}

/// Sizes that are no power of two are of bytes that need no alignment.
#[inline(always)]
fn alignment(bytes: usize) -> u64 {
    if bytes.is_power_of_two() { bytes as u64 } else { 1 }
}

/// Integers of memory.
pub(crate) trait Plain: Copy + Default {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for u64 {}

impl Checked<'_> {
    /// Reads one element a lane, at an offset into the bytes that were checked; zero in other lanes.
    #[inline(always)]
    pub(crate) fn read<T: Plain>(&self, offset: usize) -> Lanes<T> {
        assert!(offset + size_of::<T>() <= self.bytes);
        let element = |lane: usize| {
            // SAFETY: the element is within the bytes that were checked for this lane.
            unsafe { pointer::<T>(self.addresses.0[lane] + offset as u64).read_unaligned() }
        };
        let mut out = Lanes::all(T::default());
        match self.pattern {
            Pattern::Uniform => out = Lanes::all(element(0)),
            // SAFETY: every lane's element was checked, and they are one behind another.
            Pattern::Consecutive if self.bytes == size_of::<T>() => unsafe {
                out.0.as_mut_ptr().copy_from(pointer(self.addresses.0[0]), LANES);
            },
            _ if self.mask == u32::MAX => {
                for lane in 0..LANES {
                    out.0[lane] = element(lane);
                }
            }
            _ => lanes_of(self.mask).for_each(|lane| out.0[lane] = element(lane)),
        }
        out
    }

    /// Writes one element a lane, lowest lane first.
    #[inline(always)]
    pub(crate) fn write<T: Plain>(&self, offset: usize, value: &Lanes<T>) {
        assert!(offset + size_of::<T>() <= self.bytes);
        if self.pattern == Pattern::Consecutive && self.bytes == size_of::<T>() {
            // SAFETY: every lane's element was checked, and they are one behind another.
            unsafe { pointer::<T>(self.addresses.0[0]).copy_from(value.0.as_ptr(), LANES) };
            return;
        }
        for lane in lanes_of(self.mask) {
            // SAFETY: the element is within the bytes that were checked for this lane.
            unsafe { pointer::<T>(self.addresses.0[lane] + offset as u64).write_unaligned(value.0[lane]) };
        }
    }

    /// Reads all of a lane's bytes.
    pub(crate) fn read_bytes(&self, lane: usize, to: &mut [u8]) {
        assert!(self.mask >> lane & 1 == 1 && to.len() <= self.bytes);
        // SAFETY: that many bytes were checked for this lane.
        unsafe { to.as_mut_ptr().copy_from(pointer(self.addresses.0[lane]), to.len()) };
    }

    /// Writes all of a lane's bytes.
    pub(crate) fn write_bytes(&self, lane: usize, from: &[u8]) {
        assert!(self.mask >> lane & 1 == 1 && from.len() <= self.bytes);
        // SAFETY: that many bytes were checked for this lane.
        unsafe { pointer::<u8>(self.addresses.0[lane]).copy_from(from.as_ptr(), from.len()) };
    }

    /// Replaces a lane's 16, 32 or 64 bits by a function of them, atomically; returns what was there.
    #[inline(always)]
    pub(crate) fn update(&self, lane: usize, f: impl Fn(u64) -> u64) -> u64 {
        assert!(self.mask >> lane & 1 == 1);
        let address = self.addresses.0[lane];
        // A closure that always gives a value never fails to update.
        match self.bytes {
            2 => {
                // SAFETY: two aligned bytes were checked for this lane.
                let cell = unsafe { AtomicU16::from_ptr(pointer(address)) };
                let f = |old| Some(f(u64::from(old)) as u16);
                u64::from(cell.fetch_update(Ordering::SeqCst, Ordering::SeqCst, f).unwrap_or_else(|old| old))
            }
            4 => {
                // SAFETY: four aligned bytes were checked for this lane.
                let cell = unsafe { AtomicU32::from_ptr(pointer(address)) };
                let f = |old| Some(f(u64::from(old)) as u32);
                u64::from(cell.fetch_update(Ordering::SeqCst, Ordering::SeqCst, f).unwrap_or_else(|old| old))
            }
            bytes => {
                assert_eq!(bytes, 8);
                // SAFETY: eight aligned bytes were checked for this lane.
                let cell = unsafe { AtomicU64::from_ptr(pointer(address)) };
                cell.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(f(old)))
                    .unwrap_or_else(|old| old)
            }
        }
    }
}
