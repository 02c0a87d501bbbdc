use std::collections::{HashMap, HashSet};

use burn_ir::OperationIr;
use oomph_core::Bytes;
use oomph_timeline::{Category, Clock, Draft, Name, Origin, Span, SpanKind, Split, TensorLocation, Timeline};

use crate::{
    Backend, Note, Noted, PoolLayout, Recording,
    allocator_sim::AllocatorSim,
    checkpointing::Graph,
    flex::Flex,
    gpu,
    operation::operation_name,
    pools::{Grain, PoolSim},
    recording::first_output,
};

/// The head of a planned timeline.
#[derive(Clone, Debug)]
pub struct Head {
    /// The title: `resnet18 · batch 32 · sgd`.
    pub title: String,
    /// The device of the plan.
    pub device: String,
    /// The device's memory limit, if known.
    pub limit_bytes: Option<Bytes>,
}

/// Simulates the backend's allocator over the recorded operations. The timeline has the bytes in use after each
/// operation, by category; on a GPU also the bytes that the pools reserve, with direct pools that give back unused memory
/// only when the limit is reached.
pub fn replay(recording: &Recording, backend: Backend, head: Head) -> Timeline {
    let simulated = match backend {
        Backend::Cpu { threads } => on_cpu(threads, recording.is_on_own_threads),
        Backend::Cuda => on_cuda(PoolLayout::Direct { reclaim_at: None }, head.limit_bytes),
        Backend::Vulkan => on_vulkan(head.limit_bytes),
    };
    replay_by(recording, simulated, head)
}

/// As [`replay`] on a CUDA card, with pools of another layout.
pub fn replay_in_pools(recording: &Recording, layout: PoolLayout, head: Head) -> Timeline {
    let simulated = on_cuda(layout, head.limit_bytes);
    replay_by(recording, simulated, head)
}

fn replay_by(recording: &Recording, simulated: Simulated, head: Head) -> Timeline {
    let operations = recording.operations.iter().enumerate();
    let reads = operations.flat_map(|(index, it)| it.inputs().map(move |tensor| (tensor.id.value(), index)));
    let last_reads: HashMap<u64, usize> = reads.collect();
    let markers: HashSet<u64> = recording.notes.iter().map(|note| note.at).collect();
    let Simulated { mut sim, rules } = simulated;
    sim.graph = recording.is_checkpointed.then(Graph::default);
    sim.graph_order.ends = recording.graph_ends;
    let mut replay = Replay { sim, tensors: Vec::new(), steps: Vec::new(), offloads: Offloads::default() };
    let mut notes = recording.notes.iter().peekable();
    'operations: for (index, operation) in recording.operations.iter().enumerate() {
        if let Some(first) = first_output(operation) {
            if markers.contains(&first) {
                continue;
            }
            while let Some(note) = notes.next_if(|note| note.at < first) {
                if !replay.note(note) {
                    break 'operations;
                }
            }
        }
        let ids = operation.inputs().chain(operation.outputs()).map(|tensor| tensor.id.value());
        let needed = ids.filter(|id| last_reads.get(id).is_some_and(|last| *last > index)).collect();
        replay.sim.begin(&operation_name(operation), needed);
        rules(&mut replay.sim, operation);
        replay.sim.record(operation);
        replay.sim.end(operation.inputs().chain(operation.outputs()));
    }
    for note in notes {
        if !replay.note(note) {
            break;
        }
    }
    replay.finish(recording, head)
}

/// The allocation rules of a backend: what an operation does to the allocator.
type Rules = Box<dyn Fn(&mut AllocatorSim, &OperationIr)>;

/// The allocator of a backend, and its rules.
struct Simulated {
    sim: AllocatorSim,
    rules: Rules,
}

fn on_cpu(threads: usize, is_on_own_threads: bool) -> Simulated {
    let mut sim = AllocatorSim::new();
    let flex = Flex::new(threads, usize::from(!is_on_own_threads), &mut sim);
    Simulated { sim, rules: Box::new(move |sim, operation| flex.run(sim, operation)) }
}

/// The pools give back unused memory where the card is full.
fn on_cuda(layout: PoolLayout, limit_bytes: Option<Bytes>) -> Simulated {
    let pools = PoolSim::new(layout, Grain::CUDA, limit_bytes.map(Bytes::get));
    Simulated { sim: gpu::on_cuda(pools), rules: Box::new(gpu::run) }
}

fn on_vulkan(limit_bytes: Option<Bytes>) -> Simulated {
    let layout = PoolLayout::Direct { reclaim_at: None };
    let pools = PoolSim::new(layout, Grain::VULKAN, limit_bytes.map(Bytes::get));
    Simulated { sim: gpu::on_vulkan(pools), rules: Box::new(gpu::run) }
}

struct Replay {
    sim: AllocatorSim,
    tensors: Vec<TensorLocation>,
    steps: Vec<Span>,
    offloads: Offloads,
}

/// Bytes that are in host memory instead of on the device.
#[derive(Default)]
struct Offloads {
    now: Split,
    most: Split,
}

impl Replay {
    /// Applies a note; `false` if it ends the plan.
    fn note(&mut self, note: &Note) -> bool {
        let next = self.sim.next_event();
        match &note.what {
            Noted::Point(point) => self.sim.go(point.phase(), &point.scope()),
            Noted::Step(name) => {
                self.end_step(next);
                let name = self.sim.names.of(name);
                self.steps.push(Span { kind: SpanKind::Step, name, start: next, end: next });
            }
            // Never released: the timeline ends before.
            Noted::Kept { bytes, what } => self.sim.keep(*bytes, what),
            Noted::Offloaded { category, bytes } => self.offloaded(*category, *bytes),
            Noted::End => return false,
            Noted::Held { tensor, category, name } => {
                if let (Category::Parameters, Some(graph)) = (category, &mut self.sim.graph) {
                    graph.parameter(*tensor);
                }
                if let Some(address) = self.sim.address(*tensor) {
                    self.tensors.push(TensorLocation {
                        event: next.saturating_sub(1),
                        address,
                        category: *category,
                        tensor: self.sim.names.of(name),
                        shape: Vec::new(),
                        dtype: Name::NONE,
                    });
                }
            }
        }
        true
    }

    fn offloaded(&mut self, category: Category, bytes: u64) {
        let Offloads { now, most } = &mut self.offloads;
        now[category] = bytes;
        if now.total() > most.total() {
            *most = *now;
        }
    }

    fn end_step(&mut self, event: u32) {
        if let Some(step) = self.steps.last_mut() {
            step.end = event;
        }
    }

    fn finish(mut self, recording: &Recording, head: Head) -> Timeline {
        let end = self.sim.next_event();
        self.end_step(end);
        let AllocatorSim { blocks, times, points, names, reserved, occupied, .. } = self.sim;
        let Head { title, device, limit_bytes } = head;
        let timeline = Timeline {
            title,
            device,
            limit_bytes,
            times,
            reserved,
            occupied,
            blocks,
            offloaded: self.offloads.most,
            spans: self.steps,
            names,
            ..Timeline::new(Origin::Planned, Clock::Operations)
        };
        Draft { timeline, points, tensors: self.tensors, stages: recording.stages.clone() }.assemble()
    }
}
