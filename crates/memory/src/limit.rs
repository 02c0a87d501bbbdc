use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use oomph_core::{Bytes, MOST_DEVICES, Place, current_device};

use crate::record;

/// An allocation that a device of the size of [`limit`] would have refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The index of the CPU device.
    pub device: usize,
    /// What was asked for.
    pub requested_bytes: Bytes,
    /// What was in use after it.
    pub in_use_bytes: Bytes,
    /// The limit then.
    pub limit_bytes: Bytes,
    /// Where the run was.
    pub place: Place,
    /// The allocation among those that are recorded: what [`record::next_event`] gave when it passed.
    pub event: u64,
}

/// More than anything can hold: no limit.
const NONE: u64 = u64::MAX;

/// Nothing is known of a crossing yet.
const ARMED: u32 = 0;
/// A thread is writing the words of one or taking them.
const MOVING: u32 = 1;
/// The words are there.
const CROSSED: u32 = 2;

/// The limit of a device, and what is known of its crossing. Devices that run at the same time share no cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Limit {
    bytes: AtomicU64,
    /// [`ARMED`], [`MOVING`] or [`CROSSED`].
    state: AtomicU32,
    place: AtomicU32,
    requested: AtomicU64,
    in_use: AtomicU64,
    crossed: AtomicU64,
    event: AtomicU64,
}

static LIMITS: [Limit; MOST_DEVICES] = [const { Limit::new() }; MOST_DEVICES];

/// Sets what each CPU device may hold; `None` for whatever the machine has. Crossings of the limits before are
/// forgotten.
///
/// An allocator can neither refuse nor unwind without ending the program, so allocations pass, and the first one above
/// the limit is kept for [`take_crossing`], to be asked for where a step may end in an error.
pub fn set_limit(limit_bytes: Option<Bytes>) {
    (0..MOST_DEVICES).for_each(|device| set_device_limit(device, limit_bytes));
}

/// Sets what the CPU device of that index may hold, as [`set_limit`] does for all of them.
pub fn set_device_limit(device: usize, limit_bytes: Option<Bytes>) {
    let limit = Limit::of(device);
    limit.bytes.store(limit_bytes.map_or(NONE, Bytes::get), Relaxed);
    limit.take(device);
}

/// What the CPU device that this thread works for may hold.
pub fn limit() -> Option<Bytes> {
    let limit_bytes = Limit::of(current_device()).bytes.load(Relaxed);
    Some(limit_bytes).filter(|&limit| limit != NONE).map(Bytes::new)
}

/// The first allocation on this thread's device that went above its limit since that was set, or since the last
/// [`take_crossing`].
pub fn crossing() -> Option<Crossing> {
    let device = current_device();
    let limit = Limit::of(device);
    (limit.state.load(Acquire) == CROSSED).then(|| limit.words(device))
}

/// Takes the crossing of this thread's device, and looks out for the next one.
pub fn take_crossing() -> Option<Crossing> {
    let device = current_device();
    Limit::of(device).take(device)
}

/// For the allocator: compares what is in use on a device after an allocation with its limit. Does not allocate.
pub(crate) fn check(device: usize, requested_bytes: u64, in_use_bytes: u64) {
    let limit = Limit::of(device);
    let limit_bytes = limit.bytes.load(Relaxed);
    if in_use_bytes > limit_bytes {
        limit.cross(device, requested_bytes, in_use_bytes, limit_bytes);
    }
}

impl Limit {
    const fn new() -> Self {
        Self {
            bytes: AtomicU64::new(NONE),
            state: AtomicU32::new(ARMED),
            place: AtomicU32::new(0),
            requested: AtomicU64::new(0),
            in_use: AtomicU64::new(0),
            crossed: AtomicU64::new(0),
            event: AtomicU64::new(0),
        }
    }

    #[inline]
    fn of(device: usize) -> &'static Self {
        &LIMITS[device.min(MOST_DEVICES - 1)]
    }

    fn take(&self, device: usize) -> Option<Crossing> {
        self.state.compare_exchange(CROSSED, MOVING, AcqRel, Relaxed).ok()?;
        let crossing = self.words(device);
        self.state.store(ARMED, Release);
        Some(crossing)
    }

    fn words(&self, device: usize) -> Crossing {
        Crossing {
            device,
            requested_bytes: Bytes::new(self.requested.load(Relaxed)),
            in_use_bytes: Bytes::new(self.in_use.load(Relaxed)),
            limit_bytes: Bytes::new(self.crossed.load(Relaxed)),
            place: Place::from_word(self.place.load(Relaxed)),
            event: self.event.load(Relaxed),
        }
    }

    #[cold]
    fn cross(&self, device: usize, requested_bytes: u64, in_use_bytes: u64, limit_bytes: u64) {
        // Above the limit every allocation comes by; a load leaves the line with all threads.
        if self.state.load(Relaxed) != ARMED
            || self.state.compare_exchange(ARMED, MOVING, AcqRel, Relaxed).is_err()
        {
            return;
        }
        self.requested.store(requested_bytes, Relaxed);
        self.in_use.store(in_use_bytes, Relaxed);
        self.crossed.store(limit_bytes, Relaxed);
        self.place.store(record::place_on(device).word(), Relaxed);
        self.event.store(record::next_event(), Relaxed);
        self.state.store(CROSSED, Release);
    }
}
