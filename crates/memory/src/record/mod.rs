//! Records the newest allocations on the CPU devices in a ring.
//!
//! ```
//! use oomph_memory::{Account, charge, record};
//! oomph_memory::install_meter!();
//!
//! # fn main() {
//! record::start(1000);
//! drop(charge(Account::Device, || vec![0u8; 4096]));
//! let recording = record::dump();
//! record::stop();
//! assert_eq!(recording.events.len(), 2);
//! # }
//! ```
//!
//! Events of all CPU devices share one order. A [`Recording`] has the events of one device: [`dump`] of this thread's,
//! [`dump_device`] of any, [`dump_devices`] of all at one moment.
//!
//! [`track`] notes the work of a device on the same clock: forward, backward, waiting for another device.
//!
//! Recording neither waits nor allocates in the allocator. Switched off it costs one load per allocation. A program has
//! one ring, as it has one allocator.

mod before;
mod draft;
mod event;
mod ring;
mod tracks;

use std::{
    ops::Range,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Relaxed, Release},
            fence,
        },
    },
    time::{Duration, Instant, SystemTime},
};

use oomph_core::{
    Account, Bytes, ExecutionPoint, MOST_DEVICES, charge, current_device, current_point, device_count,
    shared_point, shared_point_of,
};

pub use draft::{Note, Notes};
pub use event::{Change, Event, Recording, StepKind};
pub use tracks::{TrackGuard, track, track_was, transfer};

use crate::allocator::Device;
use event::{Kind, device_of};
use ring::{Found, Ring, Words};

static IS_ON: AtomicBool = AtomicBool::new(false);
static RING: Ring = Ring::new();
/// The origin of the events' times.
static EPOCH: OnceLock<Instant> = OnceLock::new();

/// The current recording, or the last one.
#[derive(Debug)]
struct Session {
    /// The number of its first event. Numbers count over the whole process.
    first_event: u64,
    /// Its end, if it was stopped.
    stopped: Option<Settled>,
    started: SystemTime,
    started_nanoseconds: u64,
}

/// A moment between two events.
#[derive(Clone, Copy, Debug)]
struct Settled {
    /// The number of the first incomplete event.
    end: u64,
    /// Bytes in use on each device before it.
    levels: [u64; MOST_DEVICES],
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

fn session() -> MutexGuard<'static, Option<Session>> {
    // Replaced as a whole: a panic leaves the previous one.
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a recording of at least the newest `capacity` events. They take 40 bytes each, charged to the host, and kept for
/// the next recording.
pub fn start(capacity: usize) {
    charge(Account::Host, || {
        let mut session = session();
        IS_ON.store(false, Relaxed);
        RING.reserve(capacity as u64);
        tracks::forget();
        let started_nanoseconds = nanoseconds();
        *session = Some(Session {
            first_event: RING.next(),
            stopped: None,
            started: SystemTime::now(),
            started_nanoseconds,
        });
        IS_ON.store(true, Release);
    });
}

/// Stops recording. The recording can still be [dumped](dump).
pub fn stop() {
    let mut session = session();
    let was_on = IS_ON.swap(false, Relaxed);
    if let Some(session) = session.as_mut().filter(|_| was_on) {
        session.stopped = Some(settle(oldest(session.first_event)));
    }
}

/// Whether allocations are recorded now.
pub fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// The number of the next event. A [`Note`] made now holds before that event.
pub fn next_event() -> u64 {
    RING.next()
}

/// The number of the oldest event that a dump would have now. Older notes can be dropped.
pub fn oldest_event() -> u64 {
    session().as_ref().map_or(0, |session| oldest(session.first_event))
}

fn oldest(first_event: u64) -> u64 {
    first_event.max(RING.next().saturating_sub(RING.capacity()))
}

/// Marks the start of an optimizer step or evaluation batch on this thread's device, which ends the previous one.
pub fn mark_step(number: u64, kind: StepKind) {
    if let Some(claim) = Claim::take() {
        let kind = match kind {
            StepKind::Train => Kind::TrainStep,
            StepKind::Eval => Kind::EvalBatch,
        };
        claim.write(kind, current_device(), number, 0);
    }
}

/// The recording of this thread's CPU device so far; empty without one. Recording continues.
///
/// If other threads allocate meanwhile, the dump ends at a moment at which all events are complete and match the bytes in
/// use. If there is none for some seconds, the bytes in use may be off by the incomplete events.
pub fn dump() -> Recording {
    dump_since(0)
}

/// The same without events before number `event`, see [`next_event`]. They count as lost.
pub fn dump_since(event: u64) -> Recording {
    dump_device(current_device(), event)
}

/// The recording of the CPU device of that index.
pub fn dump_device(device: usize, since: u64) -> Recording {
    let device = device.min(MOST_DEVICES - 1);
    charge(Account::Host, || gather(device..device + 1, since).pop().unwrap_or_default())
}

/// The recordings of every CPU device that a thread has worked for, by index, all up to the same moment.
pub fn dump_devices(since: u64) -> Vec<Recording> {
    charge(Account::Host, || gather(0..device_count(), since))
}

fn gather(devices: Range<usize>, since: u64) -> Vec<Recording> {
    let session = session();
    let Some(session) = session.as_ref() else {
        return devices.map(|device| Recording { device, ..Recording::default() }).collect();
    };
    let oldest_event = oldest(session.first_event).max(since);
    let Settled { end, levels } = session.stopped.unwrap_or_else(|| settle(oldest_event));
    let mut first_event = oldest_event;
    let share = end.saturating_sub(oldest_event) as usize / device_count();
    let mut events: Vec<Vec<Event>> = devices.clone().map(|_| Vec::with_capacity(share)).collect();
    for number in oldest_event..end {
        let found = match RING.read(number) {
            Found::Event(words) => {
                Event::of(number, words, session.started_nanoseconds).zip(Some(device_of(words)))
            }
            Found::Pending | Found::Overwritten => None,
        };
        match found {
            Some((event, device)) if devices.contains(&device) => events[device - devices.start].push(event),
            Some(_) => {}
            None => {
                // Overwritten meanwhile: older events count as lost too, so no event is missing in between.
                events.iter_mut().for_each(Vec::clear);
                first_event = number + 1;
            }
        }
    }
    let recording = |(device, events): (usize, Vec<Event>)| {
        let since_first: i128 = events.iter().map(Event::bytes_change).sum();
        let before = i128::from(levels[device]) - since_first;
        // A complete recording includes the time before its first event.
        let first = events.first().filter(|_| first_event > session.first_event);
        let moment = first.map_or(0, |event| event.nanoseconds);
        Recording {
            device,
            events,
            first_event,
            end_event: end,
            lost_events: first_event - session.first_event,
            in_use_bytes: Bytes::new(u64::try_from(before).unwrap_or(0)),
            track: tracks::of_device(device, moment, session.started_nanoseconds),
            started: Some(session.started),
        }
    };
    devices.zip(events).map(recording).collect()
}

/// The last moment with all events complete, and the bytes in use on each device then.
///
/// An event changes the level between claiming its number and being written. So if all claimed events are written, and
/// none is claimed while the levels are read, the levels match the events.
fn settle(first_event: u64) -> Settled {
    const TURNS_BETWEEN_PAUSES: u32 = 64;
    const MOST_PAUSES: u32 = 10_000;
    let mut end = first_event;
    let mut levels = [0; MOST_DEVICES];
    let mut turns = 0;
    loop {
        let next = RING.next();
        while end < next && RING.is_written(end) {
            end += 1;
        }
        // A device that a thread starts to work for only now has no level yet, or an event after `end`.
        for (device, level) in levels.iter_mut().enumerate().take(device_count()) {
            *level = Device::of(device).live.load(Acquire);
        }
        if RING.next() == end || turns > TURNS_BETWEEN_PAUSES * MOST_PAUSES {
            return Settled { end, levels };
        }
        turns += 1;
        if turns % TURNS_BETWEEN_PAUSES == 0 {
            // A writing thread may wait for this core. Yielding does not help if that thread is not runnable yet.
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// The execution point on a device: this thread's point, or the device's shared point if this thread has none (a compute
/// thread) or works for another device (and frees a block of this one).
pub(crate) fn point_on(device: usize) -> ExecutionPoint {
    if device != current_device() {
        return shared_point_of(device);
    }
    let own = current_point();
    if own == ExecutionPoint::default() { shared_point() } else { own }
}

/// Nanoseconds since the process's epoch, so that an event's time does not depend on the recording.
fn nanoseconds() -> u64 {
    EPOCH.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// For the allocator: the number of an event whose level is about to change. Write the event after the change.
#[derive(Debug)]
#[must_use = "readers wait for a claimed event"]
pub(crate) struct Claim(u64);

impl Claim {
    /// A number, while recording is on.
    #[inline]
    pub(crate) fn take() -> Option<Self> {
        IS_ON.load(Relaxed).then(Self::next)
    }

    /// A number for the second half of a change whose first half is recorded.
    #[cold]
    pub(crate) fn next() -> Self {
        // Whoever sees that recording is on sees the ring's memory.
        fence(Acquire);
        Self(RING.claim())
    }

    pub(crate) fn alloc(self, device: usize, address: usize, bytes: usize) {
        self.write(Kind::Alloc, device, address as u64, bytes as u64);
    }

    pub(crate) fn free(self, device: usize, address: usize, bytes: usize) {
        self.write(Kind::Free, device, address as u64, bytes as u64);
    }

    #[cold]
    fn write(self, kind: Kind, device: usize, address: u64, bytes: u64) {
        let (kind, point) = (kind.on(device), point_on(device).word());
        RING.write(self.0, Words { kind, point, address, bytes, nanoseconds: nanoseconds() });
    }
}
