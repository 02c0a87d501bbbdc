use std::time::SystemTime;

use oomph_core::{Bytes, Place};

use super::ring::Words;

/// What was recorded: all events from the first one kept to the last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The events, in order.
    pub events: Vec<Event>,
    /// The number of the first of them; see [`next_event`](super::next_event).
    pub first_event: u64,
    /// Older events of this recording that the ring no longer had.
    pub lost_events: u64,
    /// What was in use before the first of the events.
    pub in_use_bytes: Bytes,
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
    /// Where the run was.
    pub place: Place,
}

/// What happened to the memory of the CPU device.
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

/// The kinds of events as the ring has them.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum Kind {
    Alloc,
    Free,
    TrainStep,
    EvalBatch,
}

impl Event {
    /// The event that these words say; `None` where they say none.
    pub(super) fn of(words: Words, started_nanoseconds: u64) -> Option<Self> {
        let Words { kind, place, address, bytes, nanoseconds } = words;
        let change = match kind {
            kind if kind == Kind::Alloc as u32 => Change::Alloc { address, bytes },
            kind if kind == Kind::Free as u32 => Change::Free { address, bytes },
            kind if kind == Kind::TrainStep as u32 => Change::Step { number: address, kind: StepKind::Train },
            kind if kind == Kind::EvalBatch as u32 => Change::Step { number: address, kind: StepKind::Eval },
            _ => return None,
        };
        let nanoseconds = nanoseconds.saturating_sub(started_nanoseconds);
        Some(Self { change, nanoseconds, place: Place::from_word(place) })
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
