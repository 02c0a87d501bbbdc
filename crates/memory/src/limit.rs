use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use oomph_core::{Bytes, ExecutionPoint, MOST_DEVICES, current_device};

use crate::record;

/// An allocation that exceeded the [`limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The index of the CPU device.
    pub device: usize,
    /// The requested bytes.
    pub requested_bytes: Bytes,
    /// The bytes in use after it.
    pub in_use_bytes: Bytes,
    /// The limit then.
    pub limit_bytes: Bytes,
    /// The execution point.
    pub point: ExecutionPoint,
    /// The allocation's number among recorded events: the value of [`record::next_event`] at that moment.
    pub event: u64,
}

/// Above any size: no limit.
const NONE: u64 = u64::MAX;

/// No crossing so far.
const ARMED: u32 = 0;
/// A thread is writing or taking the words of a crossing.
const MOVING: u32 = 1;
/// The words of a crossing are complete.
const CROSSED: u32 = 2;

/// The limit of a device and its crossing, on its own cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Limit {
    bytes: AtomicU64,
    /// [`ARMED`], [`MOVING`] or [`CROSSED`].
    state: AtomicU32,
    point: AtomicU32,
    requested: AtomicU64,
    in_use: AtomicU64,
    crossed: AtomicU64,
    event: AtomicU64,
}

static LIMITS: [Limit; MOST_DEVICES] = [const { Limit::new() }; MOST_DEVICES];

/// Sets the limit of each CPU device; `None` for no limit. Earlier crossings are forgotten.
///
/// An allocator cannot refuse or unwind without ending the program. So allocations succeed, and the first one above the
/// limit is kept for [`take_crossing`], which is called where a step may end in an error.
pub fn set_limit(limit_bytes: Option<Bytes>) {
    (0..MOST_DEVICES).for_each(|device| set_device_limit(device, limit_bytes));
}

/// Sets the limit of the CPU device of that index.
pub fn set_device_limit(device: usize, limit_bytes: Option<Bytes>) {
    let limit = Limit::of(device);
    limit.bytes.store(limit_bytes.map_or(NONE, Bytes::get), Relaxed);
    limit.take(device);
}

/// The limit of this thread's CPU device.
pub fn limit() -> Option<Bytes> {
    let limit_bytes = Limit::of(current_device()).bytes.load(Relaxed);
    Some(limit_bytes).filter(|&limit| limit != NONE).map(Bytes::new)
}

/// The first allocation on this thread's device above its limit since [`set_limit`] or the last [`take_crossing`].
pub fn crossing() -> Option<Crossing> {
    let device = current_device();
    let limit = Limit::of(device);
    (limit.state.load(Acquire) == CROSSED).then(|| limit.words(device))
}

/// Takes the crossing of this thread's device, and watches for the next one.
pub fn take_crossing() -> Option<Crossing> {
    let device = current_device();
    Limit::of(device).take(device)
}

/// For the allocator: compares the bytes in use on a device after an allocation with its limit. Does not allocate.
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
            point: AtomicU32::new(0),
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
            point: ExecutionPoint::from_word(self.point.load(Relaxed)),
            event: self.event.load(Relaxed),
        }
    }

    #[cold]
    fn cross(&self, device: usize, requested_bytes: u64, in_use_bytes: u64, limit_bytes: u64) {
        // Above the limit every allocation gets here; a load keeps the cache line shared.
        if self.state.load(Relaxed) != ARMED
            || self.state.compare_exchange(ARMED, MOVING, AcqRel, Relaxed).is_err()
        {
            return;
        }
        self.requested.store(requested_bytes, Relaxed);
        self.in_use.store(in_use_bytes, Relaxed);
        self.crossed.store(limit_bytes, Relaxed);
        self.point.store(record::point_on(device).word(), Relaxed);
        self.event.store(record::next_event(), Relaxed);
        self.state.store(CROSSED, Release);
    }
}
