//! A recording of every allocation on the CPU device: the newest ones, in a ring.
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
//! Events of several CPU devices stand in one order; a [`Recording`] has those of one of them, with the level of that
//! device: [`dump`] of the one that the thread works for, [`dump_device`] of any, [`dump_devices`] of all at one moment.
//!
//! [`lane`] says what a device does meanwhile: forward, backward, waiting for another. It is on the same clock.
//!
//! Recording neither waits nor allocates in the allocator; while it is off it costs one load an allocation. There is
//! one ring in a program, as there is one allocator.

mod before;
mod draft;
mod event;
mod lanes;
mod ring;

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
    Bytes, MOST_DEVICES, Place, current_device, device_count, place, shared_place, shared_place_of,
};

pub use draft::{Note, Notes};
pub use event::{Change, Event, Recording, StepKind};
pub use lanes::{LaneGuard, lane, lane_was, transfer};

use crate::{
    account::{Account, charge},
    allocator::Device,
};
use event::{Kind, device_of};
use ring::{Found, Ring, Words};

static IS_ON: AtomicBool = AtomicBool::new(false);
static RING: Ring = Ring::new();
/// What the events' times count from.
static EPOCH: OnceLock<Instant> = OnceLock::new();

/// The recording that goes on, or the last one.
#[derive(Debug)]
struct Session {
    /// The number of its first event. Numbers are the process's: they never start anew.
    first_event: u64,
    /// How it ended, where it was stopped.
    stopped: Option<Settled>,
    started: SystemTime,
    started_nanoseconds: u64,
}

/// A moment between two events.
#[derive(Clone, Copy, Debug)]
struct Settled {
    /// The number of the first event that is not over yet.
    end: u64,
    /// What was in use on each device before it.
    levels: [u64; MOST_DEVICES],
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

fn session() -> MutexGuard<'static, Option<Session>> {
    // Replaced as a whole; a panic in between leaves the one before.
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a new recording that keeps the newest events: at least `capacity` of them, in 40 bytes each, which are
/// charged to the host and kept for the next recording.
pub fn start(capacity: usize) {
    charge(Account::Host, || {
        let mut session = session();
        IS_ON.store(false, Relaxed);
        RING.reserve(capacity as u64);
        lanes::forget();
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

/// Stops recording. What was recorded can still be [dumped](dump).
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

/// The number of the next event. What is known of memory now is so before that event: see [`Note`].
pub fn next_event() -> u64 {
    RING.next()
}

/// The number of the oldest event that a recording made now would have. Notes of before can be forgotten.
pub fn oldest_event() -> u64 {
    session().as_ref().map_or(0, |session| oldest(session.first_event))
}

fn oldest(first_event: u64) -> u64 {
    first_event.max(RING.next().saturating_sub(RING.capacity()))
}

/// Notes that an optimizer step or an evaluation batch begins here on this thread's device; the one before ends.
pub fn mark_step(number: u64, kind: StepKind) {
    if let Some(claim) = Claim::take() {
        let kind = match kind {
            StepKind::Train => Kind::TrainStep,
            StepKind::Eval => Kind::EvalBatch,
        };
        claim.write(kind, current_device(), number, 0);
    }
}

/// What was recorded so far of the CPU device that this thread works for; empty where nothing was. Recording goes on
/// meanwhile.
///
/// Where other threads allocate at the same time, the recording ends at a moment at which all events are complete and
/// belong to the level. After some seconds without one the level is off by what was on its way.
pub fn dump() -> Recording {
    dump_since(0)
}

/// The same without the events before number `event`, see [`next_event`]: they count as lost.
pub fn dump_since(event: u64) -> Recording {
    dump_device(current_device(), event)
}

/// The same of the CPU device of that index.
pub fn dump_device(device: usize, since: u64) -> Recording {
    let device = device.min(MOST_DEVICES - 1);
    charge(Account::Host, || gather(device..device + 1, since).pop().unwrap_or_default())
}

/// The same of every CPU device that a thread worked for, by index, all of them up to the same moment.
pub fn dump_devices(since: u64) -> Vec<Recording> {
    charge(Account::Host, || gather(0..device_count(), since))
}

/// The recordings of some devices.
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
                // Others wrote on: what is older is lost as well, so that no event is missing in between.
                events.iter_mut().for_each(Vec::clear);
                first_event = number + 1;
            }
        }
    }
    let recording = |(device, events): (usize, Vec<Event>)| {
        let since_first: i128 = events.iter().map(Event::bytes_change).sum();
        let before = i128::from(levels[device]) - since_first;
        // Of a whole recording also what was before its first event.
        let first = events.first().filter(|_| first_event > session.first_event);
        let moment = first.map_or(0, |event| event.nanoseconds);
        Recording {
            device,
            events,
            first_event,
            end_event: end,
            lost_events: first_event - session.first_event,
            in_use_bytes: Bytes::new(u64::try_from(before).unwrap_or(0)),
            lane: lanes::of_device(device, moment, session.started_nanoseconds),
            started: Some(session.started),
        }
    };
    devices.zip(events).map(recording).collect()
}

/// The last moment whose events are all over, and what is in use on each device then.
///
/// An event changes the level after it claimed its number and before it is written. So where all claimed ones are
/// written, and none is claimed while the level is read, the level is that of these events.
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
        // A device that a thread works for only from now on has no level yet, or an event after `end`.
        for (device, level) in levels.iter_mut().enumerate().take(device_count()) {
            *level = Device::of(device).live.load(Acquire);
        }
        if RING.next() == end || turns > TURNS_BETWEEN_PAUSES * MOST_PAUSES {
            return Settled { end, levels };
        }
        turns += 1;
        if turns % TURNS_BETWEEN_PAUSES == 0 {
            // A thread that is to write may wait for this core. To yield it is not enough where it is not runnable yet.
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Where the run is on a device: where this thread is, or, where it never went anywhere (a thread that computes for
/// another) or works for another device (and frees a block of this one), where the thread is that moved last there.
pub(crate) fn place_on(device: usize) -> Place {
    if device != current_device() {
        return shared_place_of(device);
    }
    let own = place();
    if own == Place::default() { shared_place() } else { own }
}

/// Of the process: an event's time must not change with a new recording.
fn nanoseconds() -> u64 {
    EPOCH.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// For the allocator: the number of an event whose level is about to change. To be written after the change.
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
        let (kind, place) = (kind.on(device), place_on(device).word());
        RING.write(self.0, Words { kind, place, address, bytes, nanoseconds: nanoseconds() });
    }
}
