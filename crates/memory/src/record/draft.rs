use std::collections::HashMap;

use oomph_core::{Bytes, Phase, Place};

use super::{Change, Recording, StepKind, before};
use crate::{
    account::{Account, charge},
    timeline::{Category, Clock, Draft, Held, Name, Names, Origin, RawBlock, Span, SpanKind, Timeline},
};

/// What the owner of the tensors knows of a recording.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// For the head of a report: `resnet18 · batch 32 · sgd`.
    pub title: String,
    /// The device, such as `cpu`.
    pub device: String,
    /// What the device may use, where that is known.
    pub limit_bytes: Option<Bytes>,
    /// The names of the model's stages.
    pub stages: Vec<String>,
    /// Which tensors lay where, and when: those of the recording's device.
    pub held: Vec<Note>,
}

/// Says that a tensor lay somewhere before the event `next_event`, and after the one before.
///
/// Tensors that live long are to be noted again with every step: of a note that is older than the oldest event it is
/// not known whether it still holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// What [`next_event`](super::next_event) gave when the tensor lay there.
    pub next_event: u64,
    /// The address of its memory, or one within.
    pub address: u64,
    /// How much memory it has from `address` on, where known. With it memory can be named that was allocated before
    /// the recording.
    pub bytes: Option<Bytes>,
    /// What it is for.
    pub category: Category,
    /// Its name, where it has one: `layer1.0.conv1.weight`.
    pub tensor: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its element type: `f32`.
    pub dtype: String,
}

impl Recording {
    /// What was in use over time, and for what.
    pub fn timeline(&self, notes: &Notes) -> Timeline {
        charge(Account::Host, || Timeline { lane: self.lane.clone(), ..self.draft(notes).assemble() })
    }

    /// The events as blocks. Event `k` of the recording is event `k + 1` of the timeline: that one's first event is
    /// the moment before.
    ///
    /// Blocks that were there before are told by their frees, by notes made at the first event, and by later notes of
    /// tensors that persist; as far as what was in use then goes. The rest of it is one block, `before the recording`.
    pub fn draft(&self, notes: &Notes) -> Draft {
        charge(Account::Host, || {
            let mut names = Names::default();
            let places = self.places(&mut names);
            let mut blocks = self.blocks(&places);
            let held = before::explain(self, &mut blocks, notes, &mut names);
            let mut times = Vec::with_capacity(self.events.len() + 1);
            times.push(
                self.events.first().filter(|_| self.lost_events > 0).map_or(0, |event| event.nanoseconds),
            );
            times.extend(self.events.iter().scan(0, |latest, event| {
                // Threads take number and time one after the other.
                *latest = event.nanoseconds.max(*latest);
                Some(*latest)
            }));
            Draft {
                origin: Origin::Measured,
                title: notes.title.clone(),
                device: notes.device.clone(),
                limit_bytes: notes.limit_bytes,
                clock: Clock::Nanoseconds,
                times,
                steps: self.steps(&mut names),
                places,
                blocks,
                held,
                stages: notes.stages.clone(),
                names,
                lost_events: self.lost_events,
            }
        })
    }

    fn places(&self, names: &mut Names) -> Vec<(Phase, Name)> {
        let mut known: HashMap<Place, (Phase, Name)> = HashMap::new();
        let start = (Phase::Idle, Name::NONE);
        let places = self.events.iter().map(|event| {
            *known.entry(event.place).or_insert_with(|| (event.place.phase(), names.of(&event.place.scope())))
        });
        std::iter::once(start).chain(places).collect()
    }

    /// The blocks of all events, with those that only their end tells of.
    fn blocks(&self, places: &[(Phase, Name)]) -> Vec<RawBlock> {
        let mut blocks: Vec<RawBlock> = Vec::with_capacity(self.events.len() / 2);
        let mut alive: HashMap<u64, usize> = HashMap::new();
        for (at, (event, &(phase, scope))) in (1..).zip(self.events.iter().zip(&places[1..])) {
            match event.change {
                Change::Alloc { address, bytes } => {
                    // An allocation that lies where one was says that this is gone: its free went unseen.
                    if let Some(index) = alive.insert(address, blocks.len()) {
                        blocks[index].died = Some(at);
                    }
                    blocks.push(block(address, bytes, at, phase, scope));
                }
                Change::Free { address, bytes } => match alive.remove(&address) {
                    Some(index) => blocks[index].died = Some(at),
                    None => {
                        let before = block(address, bytes, 0, Phase::Idle, Name::NONE);
                        blocks.push(RawBlock { died: Some(at), ..before });
                    }
                },
                Change::Step { .. } => {}
            }
        }
        blocks
    }

    /// From each mark to the next.
    fn steps(&self, names: &mut Names) -> Vec<Span> {
        let end = self.events.len() as u32 + 1;
        let mut steps: Vec<Span> = Vec::new();
        for (start, event) in (1..).zip(&self.events) {
            let Change::Step { number, kind } = event.change else { continue };
            if let Some(before) = steps.last_mut() {
                before.end = start;
            }
            let name = match kind {
                StepKind::Train => format!("step {number}"),
                StepKind::Eval => format!("eval batch {number}"),
            };
            steps.push(Span { kind: SpanKind::Step, name: names.of(&name), start, end });
        }
        steps
    }
}

/// A block that nothing more is known of.
pub(super) fn block(address: u64, bytes: u64, born: u32, phase: Phase, scope: Name) -> RawBlock {
    RawBlock {
        address,
        bytes,
        born,
        died: None,
        phase,
        scope,
        operation: Name::NONE,
        shape: Vec::new(),
        dtype: Name::NONE,
    }
}

impl Note {
    pub(super) fn held(&self, event: u32, names: &mut Names) -> Held {
        Held {
            event,
            address: self.address,
            category: self.category,
            tensor: names.of(&self.tensor),
            shape: self.shape.clone(),
            dtype: names.of(&self.dtype),
        }
    }
}
