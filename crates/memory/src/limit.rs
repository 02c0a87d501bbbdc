use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use oomph_core::{Bytes, Place};

use crate::record;

/// An allocation that a device of the size of [`limit`] would have refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
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

static LIMIT: AtomicU64 = AtomicU64::new(NONE);

/// What is known of a crossing: [`ARMED`], [`MOVING`] or [`CROSSED`].
static STATE: AtomicU32 = AtomicU32::new(ARMED);
/// Nothing yet.
const ARMED: u32 = 0;
/// A thread is writing the words or taking them.
const MOVING: u32 = 1;
/// The words are there.
const CROSSED: u32 = 2;

static REQUESTED: AtomicU64 = AtomicU64::new(0);
static IN_USE: AtomicU64 = AtomicU64::new(0);
static CROSSED_LIMIT: AtomicU64 = AtomicU64::new(0);
static PLACE: AtomicU32 = AtomicU32::new(0);
static EVENT: AtomicU64 = AtomicU64::new(0);

/// Sets what the CPU device may hold; `None` for whatever the machine has. A crossing of the limit before is forgotten.
///
/// An allocator can neither refuse nor unwind without ending the program, so allocations pass, and the first one above
/// the limit is kept for [`take_crossing`], to be asked for where a step may end in an error.
pub fn set_limit(limit_bytes: Option<Bytes>) {
    LIMIT.store(limit_bytes.map_or(NONE, Bytes::get), Relaxed);
    take_crossing();
}

/// What the CPU device may hold.
pub fn limit() -> Option<Bytes> {
    Some(LIMIT.load(Relaxed)).filter(|&limit| limit != NONE).map(Bytes::new)
}

/// The first allocation that went above the limit since it was set, or since the last [`take_crossing`].
pub fn crossing() -> Option<Crossing> {
    (STATE.load(Acquire) == CROSSED).then(words)
}

/// Takes the crossing, and looks out for the next one.
pub fn take_crossing() -> Option<Crossing> {
    STATE.compare_exchange(CROSSED, MOVING, AcqRel, Relaxed).ok()?;
    let crossing = words();
    STATE.store(ARMED, Release);
    Some(crossing)
}

fn words() -> Crossing {
    Crossing {
        requested_bytes: Bytes::new(REQUESTED.load(Relaxed)),
        in_use_bytes: Bytes::new(IN_USE.load(Relaxed)),
        limit_bytes: Bytes::new(CROSSED_LIMIT.load(Relaxed)),
        place: Place::from_word(PLACE.load(Relaxed)),
        event: EVENT.load(Relaxed),
    }
}

/// For the allocator: compares what is in use after an allocation with the limit. Does not allocate.
pub(crate) fn check(requested_bytes: u64, in_use_bytes: u64) {
    let limit = LIMIT.load(Relaxed);
    if in_use_bytes > limit {
        crossed(requested_bytes, in_use_bytes, limit);
    }
}

#[cold]
fn crossed(requested_bytes: u64, in_use_bytes: u64, limit: u64) {
    // Above the limit every allocation comes by; a load leaves the line with all threads.
    if STATE.load(Relaxed) != ARMED || STATE.compare_exchange(ARMED, MOVING, AcqRel, Relaxed).is_err() {
        return;
    }
    REQUESTED.store(requested_bytes, Relaxed);
    IN_USE.store(in_use_bytes, Relaxed);
    CROSSED_LIMIT.store(limit, Relaxed);
    PLACE.store(record::place_of_thread().word(), Relaxed);
    EVENT.store(record::next_event(), Relaxed);
    STATE.store(CROSSED, Release);
}
