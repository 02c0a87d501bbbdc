use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
};

use burn_ir::OperationIr;
use oomph_core::Bytes;
use oomph_memory::{Category, Clock, Draft, Held, Name, Origin, Span, SpanKind, Timeline};

use crate::{
    Backend, Note, Noted, Recording,
    checkpointing::Graph,
    cuda::{self, Cuda},
    flex::Flex,
    machine::Machine,
};

/// For the head of a planned timeline.
#[derive(Clone, Debug)]
pub struct Head {
    /// What is planned: `resnet18 · batch 32 · sgd`.
    pub title: String,
    /// The device it is planned for.
    pub device: String,
    /// What that may use.
    pub limit_bytes: Option<Bytes>,
}

/// Plays the allocator over recorded operations: what will be in use at each of them, and for what.
pub fn replay(recording: &Recording, backend: Backend, head: Head) -> Timeline {
    let lives = Lives::of(&recording.operations);
    let markers: HashSet<u64> = recording.notes.iter().map(|note| note.at).collect();
    let (mut rules, mut machine) = Rules::of(backend, recording.is_on_own_threads);
    machine.graph = recording.is_checkpointed.then(Graph::default);
    let mut play = Play { machine, held: Vec::new(), steps: Vec::new() };
    let mut notes = recording.notes.iter().peekable();
    'operations: for (index, operation) in recording.operations.iter().enumerate() {
        let first = operation.outputs().map(|tensor| tensor.id.value()).min();
        if let Some(first) = first {
            if markers.contains(&first) {
                continue;
            }
            while let Some(note) = notes.next_if(|note| note.at < first) {
                if !play.note(note) {
                    break 'operations;
                }
            }
        }
        play.machine.begin(&operation_name(operation), lives.needed_after(index, operation));
        rules.run(&mut play.machine, operation);
        play.machine.record(operation);
        play.machine.end(operation.inputs().chain(operation.outputs()));
    }
    for note in notes {
        if !play.note(note) {
            break;
        }
    }
    play.finish(recording, head)
}

/// What a backend does with an operation.
enum Rules {
    Flex(Flex),
    Cuda(Cuda),
}

impl Rules {
    fn of(backend: Backend, is_on_own_threads: bool) -> (Self, Machine) {
        match backend {
            Backend::Cpu { threads } => {
                let mut machine = Machine::new(1);
                (Self::Flex(Flex::new(threads, usize::from(!is_on_own_threads), &mut machine)), machine)
            }
            Backend::Cuda => (Self::Cuda(Cuda::new()), Machine::new(cuda::ALIGNMENT)),
        }
    }

    fn run(&mut self, machine: &mut Machine, operation: &OperationIr) {
        match self {
            Self::Flex(flex) => flex.run(machine, operation),
            Self::Cuda(cuda) => cuda.run(machine, operation),
        }
    }
}

/// The last operation that reads each tensor.
struct Lives(HashMap<u64, usize>);

impl Lives {
    fn of(operations: &[OperationIr]) -> Self {
        let mut last = HashMap::new();
        for (index, operation) in operations.iter().enumerate() {
            for tensor in operation.inputs() {
                last.insert(tensor.id.value(), index);
            }
        }
        Self(last)
    }

    fn needed_after(&self, index: usize, operation: &OperationIr) -> HashSet<u64> {
        let ids = operation.inputs().chain(operation.outputs()).map(|tensor| tensor.id.value());
        ids.filter(|id| self.0.get(id).is_some_and(|last| *last > index)).collect()
    }
}

struct Play {
    machine: Machine,
    held: Vec<Held>,
    steps: Vec<Span>,
}

impl Play {
    /// Takes a note in; `false` where it ends the plan.
    fn note(&mut self, note: &Note) -> bool {
        let next = self.machine.next_event();
        match &note.what {
            Noted::Place(place) => self.machine.go(place.phase(), &place.scope()),
            Noted::Step(name) => {
                self.end_step(next);
                let name = self.machine.names.of(name);
                self.steps.push(Span { kind: SpanKind::Step, name, start: next, end: next });
            }
            Noted::Kept { bytes, what } => {
                // Never given back: the timeline ends before.
                self.machine.keep(*bytes, what);
            }
            Noted::End => return false,
            Noted::Held { tensor, category, name } => {
                if let (Category::Parameters, Some(graph)) = (category, &mut self.machine.graph) {
                    graph.parameter(*tensor);
                }
                if let Some(address) = self.machine.address(*tensor) {
                    self.held.push(Held {
                        event: next.saturating_sub(1),
                        address,
                        category: *category,
                        tensor: self.machine.names.of(name),
                        shape: Vec::new(),
                        dtype: Name::NONE,
                    });
                }
            }
        }
        true
    }

    fn end_step(&mut self, event: u32) {
        if let Some(step) = self.steps.last_mut() {
            step.end = event;
        }
    }

    fn finish(mut self, recording: &Recording, head: Head) -> Timeline {
        let end = self.machine.next_event();
        self.end_step(end);
        let Machine { blocks, times, places, names, .. } = self.machine;
        let draft = Draft {
            origin: Origin::Planned,
            title: head.title,
            device: head.device,
            limit_bytes: head.limit_bytes,
            clock: Clock::Operations,
            times,
            places,
            steps: self.steps,
            blocks,
            held: self.held,
            stages: recording.stages.clone(),
            names,
            lost_events: 0,
        };
        draft.assemble()
    }
}

/// `conv2d_x_backward` of `Module(Conv2dXBackward(Conv2dXBackwardOpIr { …`.
///
/// Burn's operations have no names but those of their variants, which `Debug` writes; only the beginning of it is
/// written out.
fn operation_name(operation: &OperationIr) -> String {
    if let OperationIr::Custom(operation) = operation {
        return operation.id.clone();
    }
    let mut beginning = Beginning(String::new());
    // It stops when it has seen enough, which `Debug` reports as an error.
    let _ = write!(beginning, "{operation:?}");
    let words = beginning.0.split(['(', ' ', ',']).filter(|word| !word.is_empty());
    let is_payload = |word: &str| word.ends_with("Ir") || word.starts_with('{');
    let variant = words.take_while(|word| !is_payload(word)).last().unwrap_or("operation");
    snake_case(variant)
}

struct Beginning(String);

impl Write for Beginning {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.push_str(text);
        if self.0.len() > 80 || text.contains('{') { Err(std::fmt::Error) } else { Ok(()) }
    }
}

fn snake_case(camel: &str) -> String {
    let mut snake = String::new();
    for (index, letter) in camel.chars().enumerate() {
        if letter.is_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
