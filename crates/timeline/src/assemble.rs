use oomph_core::Phase;

use crate::{
    block::Block,
    category::Category,
    holdings::match_blocks,
    names::Name,
    runs::{Run, Runs},
    span::{Span, SpanKind},
    stages::StageTable,
    timeline::Timeline,
};

/// A timeline before its blocks are classified: a recording, or the planner's replay.
/// [`assemble`](Self::assemble) completes it.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Everything known so far. The blocks may be in any order, their categories and tensors are ignored. The spans are
    /// steps and evaluation batches; a phase ends where one of them ends.
    pub timeline: Timeline,
    /// Phase and scope of each event; as long as the timeline's `times`.
    pub points: Vec<(Phase, Name)>,
    /// The tensors whose memory is known. If several name one block after the same event, the first counts.
    pub tensors: Vec<TensorLocation>,
    /// The names of the model's stages. They may contain dots.
    pub stages: Vec<String>,
}

/// After event `event`, the block that contains `address` holds this tensor. It has no effect if there is no such block.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorLocation {
    /// The event after which this holds.
    pub event: u32,
    /// An address in the block; in a plan, the block's own.
    pub address: u64,
    /// The tensor's category.
    pub category: Category,
    /// Its name, if it has one: `layer1.0.conv1.weight`.
    pub tensor: Name,
    /// Its shape; ignored if `dtype` is unknown.
    pub shape: Vec<usize>,
    /// Its element type. If unknown, the block keeps its own shape and element type.
    pub dtype: Name,
}

impl Draft {
    /// Classifies the blocks, and adds the spans of phases and stages.
    ///
    /// - A block that holds a known tensor has the tensor's category from its birth on. If it later holds a tensor of
    ///   another category, it dies and is born again by that event.
    /// - A gradient that survives its step is optimizer state, as the first momentum is. So is a block that the
    ///   optimizer allocates and keeps.
    /// - A block freed before its phase ends is workspace.
    /// - Of the blocks that survive their phase, those of forward are activations and those of backward are gradients
    ///   (to be added to the next micro-batch's), provided that they are freed before the step ends. Those of the data
    ///   phase are inputs. All others are `other`.
    /// - Forward and evaluation name their stages by scope. Backward has no scopes: its events belong to the stage whose
    ///   activation is freed next.
    pub fn assemble(mut self) -> Timeline {
        let runs = Runs::new(&self.points, &self.timeline.spans);
        let raw = std::mem::take(&mut self.timeline.blocks);
        let matches = match_blocks(&raw, &self.tensors);
        let mut stages = StageTable::new(&self.stages, &mut self.timeline.names);
        let mut blocks = Vec::with_capacity(raw.len() + matches.len() / 2);
        let mut matches = matches.as_slice();
        for (index, raw) in (0..).zip(raw) {
            let count = matches.iter().take_while(|(block, _)| *block == index).count();
            let (own, others) = matches.split_at(count);
            matches = others;
            let own = own.iter().map(|&(_, tensor)| &self.tensors[tensor as usize]);
            classify(raw, own, &runs, &mut blocks);
        }
        blocks.sort_by_key(|block| block.born);

        let by_event = self.stages_by_event(&runs, &mut stages, &blocks);
        for block in blocks.iter_mut().filter(|block| block.scope == Name::NONE) {
            if runs.of(block.born).is_some_and(|run| run.phase == Phase::Backward) {
                block.scope = by_event.get(block.born as usize).copied().flatten().unwrap_or_default();
            }
        }
        let spans = self.spans(&runs, &by_event);
        Timeline { blocks, spans, ..self.timeline }
    }

    /// The stage of each event.
    fn stages_by_event(&self, runs: &Runs, stages: &mut StageTable, blocks: &[Block]) -> Vec<Option<Name>> {
        let mut by_event: Vec<Option<Name>> =
            self.points.iter().map(|&(_, scope)| stages.of(scope, &self.timeline.names)).collect();
        for block in blocks.iter().filter(|block| block.category == Category::Activations) {
            let Some(died) = block.died else { continue };
            let is_backward = runs.of(died).is_some_and(|run| run.phase == Phase::Backward);
            // A stage that is recomputed in backward has scopes.
            if is_backward && by_event[died as usize].is_none() {
                by_event[died as usize] = stages.of(block.scope, &self.timeline.names);
            }
        }
        for run in runs.iter().filter(|run| run.phase == Phase::Backward) {
            fill(&mut by_event[run.start as usize..run.end as usize]);
        }
        by_event
    }

    /// The steps of the draft, the phases, and the stages within phases.
    fn spans(&mut self, runs: &Runs, by_event: &[Option<Name>]) -> Vec<Span> {
        let mut spans = std::mem::take(&mut self.timeline.spans);
        for run in runs.iter().filter(|run| run.phase != Phase::Idle) {
            let name = self.timeline.names.of(run.phase.name());
            spans.push(Span { kind: SpanKind::Phase, name, start: run.start, end: run.end });
            if matches!(run.phase, Phase::Forward | Phase::Backward | Phase::Eval) {
                stage_spans(run, by_event, &mut spans);
            }
        }
        spans.sort_by_key(|span| (span.start, span.kind as u8));
        spans
    }
}

/// Assigns events without a stage to the next known stage, and those at the end to the last one: freeing an activation
/// ends the work on its stage.
fn fill(events: &mut [Option<Name>]) {
    let mut next = events.iter().rev().find_map(|stage| *stage);
    for stage in events.iter_mut().rev() {
        next = stage.or(next);
        *stage = next;
    }
}

fn stage_spans(run: Run, by_event: &[Option<Name>], spans: &mut Vec<Span>) {
    let mut start = run.start;
    for events in by_event[run.start as usize..run.end as usize].chunk_by(|one, next| one == next) {
        let end = start + events.len() as u32;
        if let Some(name) = events[0] {
            spans.push(Span { kind: SpanKind::Stage, name, start, end });
        }
        start = end;
    }
}

/// Adds the block, split where its tensors change its category.
fn classify<'a>(
    raw: Block,
    tensors: impl Iterator<Item = &'a TensorLocation>,
    runs: &Runs,
    blocks: &mut Vec<Block>,
) {
    let mut current = Block { category: category_by_lifetime(&raw, runs), tensor: Name::NONE, ..raw };
    let mut since: Option<u32> = None;
    let mut holds_gradient = false;
    for held in tensors {
        match since {
            None => {}
            Some(_) if held.category == current.category => continue,
            Some(event) if held.event <= event => continue,
            Some(_) => {
                let again = Block { born: held.event, ..current.clone() };
                let before = std::mem::replace(&mut current, again);
                blocks.push(Block { died: Some(held.event), ..before });
            }
        }
        since = Some(held.event);
        current.category = held.category;
        holds_gradient = held.category == Category::Gradients;
        current.tensor = held.tensor;
        if held.dtype != Name::NONE {
            current.shape.clone_from(&held.shape);
            current.dtype = held.dtype;
        }
    }
    if holds_gradient
        && let Some(end) = since.and_then(|event| runs.end_of_step(event))
        && current.died.is_none_or(|died| died > end)
    {
        let state = Block { born: end, category: Category::OptimizerState, ..current.clone() };
        blocks.push(Block { died: Some(end), ..current });
        current = state;
    }
    blocks.push(current);
}

/// The category of a block without a known tensor: by its phase, and by whether it outlives phase and step.
fn category_by_lifetime(raw: &Block, runs: &Runs) -> Category {
    let Some(run) = runs.of(raw.born) else { return Category::Other };
    if raw.died.is_some_and(|died| died < run.end) && !matches!(raw.phase, Phase::Idle | Phase::Init) {
        return Category::Workspace;
    }
    // A timeline that ends within the step does not show whether its blocks outlive the step.
    let outlives_step = runs.end_of_step(raw.born).is_some_and(|end| raw.died.is_none_or(|died| died > end));
    match raw.phase {
        Phase::Data => Category::Inputs,
        Phase::Forward if !outlives_step => Category::Activations,
        // A micro-batch's, until the next one's are added.
        Phase::Backward if !outlives_step => Category::Gradients,
        Phase::Step if outlives_step => Category::OptimizerState,
        Phase::Idle
        | Phase::Init
        | Phase::Forward
        | Phase::Backward
        | Phase::Step
        | Phase::Eval
        | Phase::Checkpoint => Category::Other,
    }
}
