//! Synthetic timelines that look like training.

use oomph_core::{Bytes, Phase};
use oomph_timeline::{Block, Category, Clock, Name, Names, Origin, Span, SpanKind, Timeline};

/// What to make up.
pub(crate) struct Training {
    pub(crate) origin: Origin,
    pub(crate) layers: usize,
    pub(crate) steps: usize,
    /// Short-lived blocks of each layer and pass.
    pub(crate) workspaces: usize,
}

impl Training {
    /// A small network, three steps.
    pub(crate) fn small(origin: Origin) -> Self {
        Self { origin, layers: 12, steps: 3, workspaces: 2 }
    }

    /// 100,000 events, 50,000 blocks.
    pub(crate) fn large(origin: Origin) -> Self {
        Self { origin, layers: 60, steps: 30, workspaces: 12 }
    }

    pub(crate) fn timeline(&self) -> Timeline {
        Recorder::new(self.origin).train(self)
    }
}

/// A shape with the number of elements of a layer.
fn shape(bytes: u64) -> Vec<usize> {
    vec![32, (bytes / 4 / 32) as usize]
}

struct Recorder {
    timeline: Timeline,
    /// Free addresses by size.
    free: Vec<(u64, u64)>,
    next_address: u64,
    phase: Phase,
}

impl Recorder {
    fn new(origin: Origin) -> Self {
        let timeline = Timeline {
            origin,
            title: "resnet18 · batch 32 · fp32 · sgd momentum 0.9".into(),
            device: "cpu".into(),
            offloaded: Default::default(),
            limit_bytes: Some(Bytes::mib(640)),
            clock: if origin == Origin::Planned { Clock::Operations } else { Clock::Nanoseconds },
            times: vec![0],
            blocks: Vec::new(),
            spans: Vec::new(),
            names: Names::default(),
            lost_events: 0,
            track: Default::default(),
            reserved: Vec::new(),
            occupied: Vec::new(),
        };
        Self { timeline, free: Vec::new(), next_address: 0x7f00_0000_0000, phase: Phase::Init }
    }

    /// Adds an event. In a measurement its time grows with the bytes; a plan counts operations.
    fn event(&mut self, work_bytes: u64) -> u32 {
        let last = self.timeline.times.last().copied().unwrap_or_default();
        let took = match self.timeline.clock {
            Clock::Operations => 1,
            Clock::Nanoseconds => 900 + work_bytes / 37 + (self.timeline.times.len() as u64 * 7919) % 4_000,
        };
        self.timeline.times.push(last + took);
        self.timeline.times.len() as u32 - 1
    }

    fn birth(&mut self, event: u32, bytes: u64, category: Category, texts: [&str; 3]) -> usize {
        let reused = self.free.iter().position(|&(size, _)| size == bytes);
        let address = match reused {
            Some(at) => self.free.swap_remove(at).1,
            None => {
                self.next_address += bytes + 64;
                self.next_address - bytes
            }
        };
        let [scope, operation, tensor] = texts.map(|text| self.timeline.names.of(text));
        let dtype = self.timeline.names.of("f32");
        let phase = self.phase;
        let block = Block {
            address,
            bytes,
            category,
            born: event,
            died: None,
            phase,
            scope,
            operation,
            tensor,
            shape: shape(bytes),
            dtype,
        };
        self.timeline.blocks.push(block);
        self.timeline.blocks.len() - 1
    }

    fn death(&mut self, event: u32, block: usize) {
        let block = &mut self.timeline.blocks[block];
        block.died = Some(event);
        self.free.push((block.bytes, block.address));
    }

    fn span(&mut self, kind: SpanKind, name: &str, inside: impl FnOnce(&mut Self)) {
        let name: Name = self.timeline.names.of(name);
        let place = self.timeline.spans.len();
        let start = self.timeline.times.len() as u32;
        self.timeline.spans.push(Span { kind, name, start, end: start });
        inside(self);
        self.timeline.spans[place].end = self.timeline.times.len() as u32;
    }

    fn workspaces(&mut self, training: &Training, layer: &str, bytes: u64) {
        for number in 0..training.workspaces {
            let size = bytes / (2 + number as u64) + 64;
            let event = self.event(size);
            let block = self.birth(event, size, Category::Workspace, [layer, "im2col", ""]);
            let event = self.event(size * 3);
            self.death(event, block);
        }
    }

    fn train(mut self, training: &Training) -> Timeline {
        let layers: Vec<_> = (0..training.layers).map(|layer| Layer::new(layer, training.layers)).collect();
        for layer in &layers {
            let weight = format!("{}.weight", layer.name);
            self.birth(0, layer.weight_bytes, Category::Parameters, [&layer.name, "", &weight]);
        }
        let mut momentum = Vec::new();
        for step in 1..=training.steps {
            self.span(SpanKind::Step, &format!("step {step}"), |it| {
                it.step(training, &layers, &mut momentum)
            });
        }
        // A plan does not know the scratch memory of kernels, so its peak is slightly lower.
        if training.origin == Origin::Planned {
            for block in &mut self.timeline.blocks {
                if block.category == Category::Workspace {
                    block.bytes = block.bytes * 3 / 4;
                }
            }
        }
        self.timeline
    }

    fn step(&mut self, training: &Training, layers: &[Layer], momentum: &mut Vec<usize>) {
        let mut input = 0;
        self.phase = Phase::Data;
        self.span(SpanKind::Phase, "data", |it| {
            let event = it.event(3 << 20);
            input = it.birth(event, 3 << 20, Category::Inputs, ["", "upload", "images"]);
        });
        let mut kept = Vec::new();
        self.phase = Phase::Forward;
        self.span(SpanKind::Phase, "forward", |it| {
            for layer in layers {
                it.span(SpanKind::Stage, &layer.name, |it| {
                    it.workspaces(training, &layer.name, layer.activation_bytes);
                    for operation in ["conv2d", "batch_norm"] {
                        let event = it.event(layer.activation_bytes * 4);
                        let texts = [layer.name.as_str(), operation, ""];
                        kept.push(it.birth(event, layer.activation_bytes, Category::Activations, texts));
                    }
                });
            }
        });
        let mut gradients = Vec::new();
        self.phase = Phase::Backward;
        self.span(SpanKind::Phase, "backward", |it| {
            for layer in layers.iter().rev() {
                it.span(SpanKind::Stage, &layer.name, |it| {
                    it.workspaces(training, &layer.name, layer.activation_bytes * 2);
                    let weight = format!("{}.weight", layer.name);
                    let event = it.event(layer.activation_bytes * 9);
                    let texts = [layer.name.as_str(), "conv2d_backward", weight.as_str()];
                    gradients.push(it.birth(event, layer.weight_bytes, Category::Gradients, texts));
                    for _ in 0..2 {
                        let event = it.event(1 << 10);
                        kept.pop().into_iter().for_each(|block| it.death(event, block));
                    }
                });
            }
        });
        self.phase = Phase::Step;
        self.span(SpanKind::Phase, "step", |it| it.update(&gradients, momentum, input));
    }

    /// The first gradients become the momentum in place; later ones are freed.
    fn update(&mut self, gradients: &[usize], momentum: &mut Vec<usize>, input: usize) {
        let is_first = momentum.is_empty();
        for &gradient in gradients {
            let event = self.event(self.timeline.blocks[gradient].bytes);
            self.death(event, gradient);
            if is_first {
                let (address, bytes) =
                    (self.timeline.blocks[gradient].address, self.timeline.blocks[gradient].bytes);
                let tensor = self.timeline.names.text(self.timeline.blocks[gradient].tensor).to_owned();
                momentum.push(self.birth(event, bytes, Category::OptimizerState, ["", "", &tensor]));
                debug_assert_eq!(self.timeline.blocks.last().map(|block| block.address), Some(address));
            }
        }
        let event = self.event(64);
        self.death(event, input);
    }
}

struct Layer {
    name: String,
    weight_bytes: u64,
    activation_bytes: u64,
}

impl Layer {
    /// Later layers have larger weights and smaller activations, as convolutional networks have.
    fn new(number: usize, of: usize) -> Self {
        let depth = number * 4 / of;
        let name = format!("layer{}.{}.conv{}", depth + 1, number % of.div_ceil(4) / 2, number % 2 + 1);
        let weight_bytes = (144 << 10) << (2 * depth.min(3));
        let activation_bytes = ((16 << 20) * 12 / of as u64) >> depth;
        Self { name, weight_bytes, activation_bytes }
    }
}
