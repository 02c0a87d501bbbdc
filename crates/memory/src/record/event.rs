use std::time::SystemTime;

use oomph_core::{Bytes, Place};

use super::ring::Words;
use crate::timeline::Lane;

/// What was recorded of one CPU device: all its events from the first one kept to the last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The index of the device.
    pub device: usize,
    /// The events, in order.
    pub events: Vec<Event>,
    /// The number from which on the events are there; see [`next_event`](super::next_event). Where there is one device
    /// it is that of the first of them.
    pub first_event: u64,
    /// The number up to which they are there: that of the first one behind them.
    pub end_event: u64,
    /// Older events of this recording that the ring no longer had, be they of this device or of another.
    pub lost_events: u64,
    /// What was in use on the device before the first of the events.
    pub in_use_bytes: Bytes,
    /// What the device did meanwhile.
    pub lane: Lane,
    /// When the recording was started; `None` where there was none.
    pub started: Option<SystemTime>,
}

/// One event of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub change: Change,
    /// When, since the start of the recording. Threads that allocate at the same time may be out of order.
    pub nanoseconds: u64,
    /// Its number among the events of all devices; see [`next_event`](super::next_event).
    pub number: u64,
    /// Where the run was, on the device.
    pub place: Place,
}

/// What happened to the memory of a CPU device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Memory was given out.
    Alloc {
        /// Where it lies.
        address: u64,
        /// What was asked for.
        bytes: u64,
    },
    /// Memory was given back.
    Free {
        /// Where it lay.
        address: u64,
        /// What had been asked for.
        bytes: u64,
    },
    /// None; a step or an evaluation batch began.
    Step {
        /// Its number.
        number: u64,
        /// Which of the two.
        kind: StepKind,
    },
}

/// What a mark begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepKind {
    /// An optimizer step.
    Train,
    /// An evaluation batch.
    Eval,
}

/// The kinds of events as the ring has them: with the device in one word.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum Kind {
    Alloc,
    Free,
    TrainStep,
    EvalBatch,
}

/// The bits of the word that say the kind; those above say the device.
const KIND_BITS: u32 = 8;

impl Kind {
    pub(super) fn on(self, device: usize) -> u32 {
        (device as u32) << KIND_BITS | self as u32
    }
}

/// The device of an event that the ring has.
pub(super) fn device_of(words: Words) -> usize {
    (words.kind >> KIND_BITS) as usize
}

impl Recording {
    /// How many of the events come before event `number`. So it is also the event of the [timeline](Self::timeline)
    /// that had happened when [`next_event`](super::next_event) gave that number, be the next one of this device or of
    /// another.
    pub fn events_before(&self, number: u64) -> u32 {
        // A ring has fewer than a `u32` can count.
        self.events.partition_point(|event| event.number < number) as u32
    }
}

impl Event {
    /// The event that these words say; `None` where they say none.
    pub(super) fn of(number: u64, words: Words, started_nanoseconds: u64) -> Option<Self> {
        let Words { kind, place, address, bytes, nanoseconds } = words;
        let change = match kind & ((1 << KIND_BITS) - 1) {
            kind if kind == Kind::Alloc as u32 => Change::Alloc { address, bytes },
            kind if kind == Kind::Free as u32 => Change::Free { address, bytes },
            kind if kind == Kind::TrainStep as u32 => Change::Step { number: address, kind: StepKind::Train },
            kind if kind == Kind::EvalBatch as u32 => Change::Step { number: address, kind: StepKind::Eval },
            _ => return None,
        };
        let nanoseconds = nanoseconds.saturating_sub(started_nanoseconds);
        Some(Self { change, nanoseconds, number, place: Place::from_word(place) })
    }

    /// What the event adds to the level.
    pub(super) fn bytes_change(&self) -> i128 {
        match self.change {
            Change::Alloc { bytes, .. } => i128::from(bytes),
            Change::Free { bytes, .. } => -i128::from(bytes),
            Change::Step { .. } => 0,
        }
    }
}
