use std::collections::HashMap;

use oomph_core::{Account, Bytes, ExecutionPoint, Phase, charge};

use oomph_timeline::{
    Block, Category, Clock, Draft, Name, Names, Origin, Span, SpanKind, TensorLocation, Timeline,
};

use super::{Change, Recording, StepKind, before};

/// Knowledge about a recording that only the owner of the tensors has.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// The title of reports: `resnet18 · batch 32 · sgd`.
    pub title: String,
    /// The device, such as `cpu`.
    pub device: String,
    /// The device's memory limit, if known.
    pub limit_bytes: Option<Bytes>,
    /// The names of the model's stages.
    pub stages: Vec<String>,
    /// Addresses of tensors over time, on the recording's device.
    pub tensors: Vec<Note>,
}

/// The address of a tensor, seen between event `next_event` and the event before it.
///
/// Note long-lived tensors again in every step. A note older than the oldest event may no longer hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The value of [`next_event`](super::next_event) when the tensor was seen.
    pub next_event: u64,
    /// An address within its memory.
    pub address: u64,
    /// Bytes of its memory from `address` on, if known. They make it possible to name memory that was allocated before
    /// the recording.
    pub bytes: Option<Bytes>,
    /// Its category.
    pub category: Category,
    /// Its name, if it has one: `layer1.0.conv1.weight`.
    pub tensor: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its element type: `f32`.
    pub dtype: String,
}

impl Recording {
    /// The memory in use over time, by category.
    pub fn timeline(&self, notes: &Notes) -> Timeline {
        charge(Account::Host, || self.draft(notes).assemble())
    }

    /// The events as blocks. Event `k` of the recording is event `k + 1` of the timeline, whose event 0 is the start.
    ///
    /// Earlier blocks are known from their frees, from notes at the first event, and from later notes of persistent
    /// tensors, as long as they fit into the bytes in use at the start. The rest is one block, `before the recording`.
    pub fn draft(&self, notes: &Notes) -> Draft {
        charge(Account::Host, || {
            let mut names = Names::default();
            let points = self.points(&mut names);
            let mut blocks = self.blocks(&points);
            let tensors = before::explain(self, &mut blocks, notes, &mut names);
            let mut times = Vec::with_capacity(self.events.len() + 1);
            times.push(
                self.events.first().filter(|_| self.lost_events > 0).map_or(0, |event| event.nanoseconds),
            );
            times.extend(self.events.iter().scan(0, |latest, event| {
                // A thread takes its number before its time, so times may be out of order.
                *latest = event.nanoseconds.max(*latest);
                Some(*latest)
            }));
            let timeline = Timeline {
                title: notes.title.clone(),
                device: notes.device.clone(),
                limit_bytes: notes.limit_bytes,
                times,
                blocks,
                spans: self.steps(&mut names),
                names,
                lost_events: self.lost_events,
                track: self.track.clone(),
                ..Timeline::new(Origin::Measured, Clock::Nanoseconds)
            };
            Draft { timeline, points, tensors, stages: notes.stages.clone() }
        })
    }

    fn points(&self, names: &mut Names) -> Vec<(Phase, Name)> {
        let mut known: HashMap<ExecutionPoint, (Phase, Name)> = HashMap::new();
        let start = (Phase::Idle, Name::NONE);
        let points = self.events.iter().map(|event| {
            *known.entry(event.point).or_insert_with(|| (event.point.phase(), names.of(&event.point.scope())))
        });
        std::iter::once(start).chain(points).collect()
    }

    /// The blocks of all events, including those whose allocation was not recorded.
    fn blocks(&self, points: &[(Phase, Name)]) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::with_capacity(self.events.len() / 2);
        let mut alive: HashMap<u64, usize> = HashMap::new();
        for (at, (event, &(phase, scope))) in (1..).zip(self.events.iter().zip(&points[1..])) {
            match event.change {
                Change::Alloc { address, bytes } => {
                    // A second allocation at the same address means that the free was not recorded.
                    if let Some(index) = alive.insert(address, blocks.len()) {
                        blocks[index].died = Some(at);
                    }
                    blocks.push(Block { phase, scope, ..Block::new(address, bytes, at) });
                }
                Change::Free { address, bytes } => match alive.remove(&address) {
                    Some(index) => blocks[index].died = Some(at),
                    None => blocks.push(Block { died: Some(at), ..Block::new(address, bytes, 0) }),
                },
                Change::Step { .. } => {}
            }
        }
        blocks
    }

    /// One span from each step mark to the next.
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

impl Note {
    pub(super) fn location(&self, event: u32, names: &mut Names) -> TensorLocation {
        TensorLocation {
            event,
            address: self.address,
            category: self.category,
            tensor: names.of(&self.tensor),
            shape: self.shape.clone(),
            dtype: names.of(&self.dtype),
        }
    }
}
