use std::time::SystemTime;

use oomph_core::{Bytes, ExecutionPoint};

use super::ring::Words;
use oomph_timeline::Track;

/// The recording of one CPU device: all its events from the first kept one to the last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The index of the device.
    pub device: usize,
    /// The events, in order.
    pub events: Vec<Event>,
    /// The number from which on events are complete; see [`next_event`](super::next_event). With one device it is the number
    /// of the first event.
    pub first_event: u64,
    /// The number up to which events are complete, exclusive.
    pub end_event: u64,
    /// Older events that the ring has overwritten, on any device.
    pub lost_events: u64,
    /// Bytes in use on the device before the first event.
    pub in_use_bytes: Bytes,
    /// The track of the device.
    pub track: Track,
    /// The start of the recording; `None` without one.
    pub started: Option<SystemTime>,
}

/// One event of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The change.
    pub change: Change,
    /// Its time since the start of the recording. Concurrent threads may be out of order.
    pub nanoseconds: u64,
    /// Its number among the events of all devices; see [`next_event`](super::next_event).
    pub number: u64,
    /// The execution point on the device.
    pub point: ExecutionPoint,
}

/// A change of the memory of a CPU device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An allocation.
    Alloc {
        /// Its address.
        address: u64,
        /// The requested bytes.
        bytes: u64,
    },
    /// A free.
    Free {
        /// Its address.
        address: u64,
        /// The bytes requested at its allocation.
        bytes: u64,
    },
    /// The start of a step or an evaluation batch.
    Step {
        /// Its number.
        number: u64,
        /// Step or evaluation batch.
        kind: StepKind,
    },
}

/// The kind of a step mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepKind {
    /// An optimizer step.
    Train,
    /// An evaluation batch.
    Eval,
}

/// The kinds of events in the ring, stored in one word with the device.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum Kind {
    Alloc,
    Free,
    TrainStep,
    EvalBatch,
}

/// The low bits of the word hold the kind, the others the device.
const KIND_BITS: u32 = 8;

impl Kind {
    pub(super) fn on(self, device: usize) -> u32 {
        (device as u32) << KIND_BITS | self as u32
    }
}

/// The device of an event in the ring.
pub(super) fn device_of(words: Words) -> usize {
    (words.kind >> KIND_BITS) as usize
}

impl Recording {
    /// The number of events before event `number`. It is also the latest event of the [timeline](Self::timeline) when
    /// [`next_event`](super::next_event) returned `number`.
    pub fn events_before(&self, number: u64) -> u32 {
        // A ring has fewer events than `u32::MAX`.
        self.events.partition_point(|event| event.number < number) as u32
    }
}

impl Event {
    /// The event of these words; `None` if they encode none.
    pub(super) fn of(number: u64, words: Words, started_nanoseconds: u64) -> Option<Self> {
        let Words { kind, point, address, bytes, nanoseconds } = words;
        let change = match kind & ((1 << KIND_BITS) - 1) {
            kind if kind == Kind::Alloc as u32 => Change::Alloc { address, bytes },
            kind if kind == Kind::Free as u32 => Change::Free { address, bytes },
            kind if kind == Kind::TrainStep as u32 => Change::Step { number: address, kind: StepKind::Train },
            kind if kind == Kind::EvalBatch as u32 => Change::Step { number: address, kind: StepKind::Eval },
            _ => return None,
        };
        let nanoseconds = nanoseconds.saturating_sub(started_nanoseconds);
        Some(Self { change, nanoseconds, number, point: ExecutionPoint::from_word(point) })
    }

    /// The change of the bytes in use.
    pub(super) fn bytes_change(&self) -> i128 {
        match self.change {
            Change::Alloc { bytes, .. } => i128::from(bytes),
            Change::Free { bytes, .. } => -i128::from(bytes),
            Change::Step { .. } => 0,
        }
    }
}
