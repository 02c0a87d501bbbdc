use oomph_core::Phase;

use super::{
    Block, Category, Draft, Held, Lane, Name, RawBlock, Span, SpanKind, Timeline, holdings,
    runs::{Run, Runs},
    stages::StageTable,
};

impl Draft {
    /// Finds out what each block is for, and which phases and stages there were.
    ///
    /// - A block that holds a tensor has the tensor's category from its birth on. Where it later holds one of another
    ///   category it dies and is born again by that event.
    /// - A gradient that is there when its step is over has become the optimizer's, as the first momentum does; so has
    ///   what the optimizer made and kept.
    /// - Any other that was born in the forward pass and alive at its end is an activation, where it is gone when its
    ///   step is over; one that backward made is a gradient on the same terms, to be added to those of the next
    ///   micro-batch; one that was gone when its phase was over is workspace; one that a batch was brought to is an
    ///   input. The rest is other.
    /// - Forward and evaluation name their stages by scope. Backward has no scopes of its own: up to the event that
    ///   frees an activation of a stage, it is busy with that stage.
    pub fn assemble(mut self) -> Timeline {
        let runs = Runs::new(&self.places, &self.steps);
        let matches = holdings::match_blocks(&self.blocks, &self.held);
        let mut stages = StageTable::new(&self.stages, &mut self.names);
        let mut blocks = Vec::with_capacity(self.blocks.len() + matches.len() / 2);
        let mut matches = matches.as_slice();
        for (index, raw) in (0..).zip(std::mem::take(&mut self.blocks)) {
            let count = matches.iter().take_while(|(block, _)| *block == index).count();
            let (own, others) = matches.split_at(count);
            matches = others;
            let own = own.iter().map(|&(_, held)| &self.held[held as usize]);
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
        Timeline {
            origin: self.origin,
            title: self.title,
            device: self.device,
            limit_bytes: self.limit_bytes,
            clock: self.clock,
            times: self.times,
            blocks,
            spans,
            names: self.names,
            lost_events: self.lost_events,
            lane: Lane::default(),
        }
    }

    /// The stage that each event is busy with.
    fn stages_by_event(&self, runs: &Runs, stages: &mut StageTable, blocks: &[Block]) -> Vec<Option<Name>> {
        let mut by_event: Vec<Option<Name>> =
            self.places.iter().map(|&(_, scope)| stages.of(scope, &self.names)).collect();
        for block in blocks.iter().filter(|block| block.category == Category::Activations) {
            let Some(died) = block.died else { continue };
            let is_backward = runs.of(died).is_some_and(|run| run.phase == Phase::Backward);
            // Where a stage runs again in backward its events say so themselves.
            if is_backward && by_event[died as usize].is_none() {
                by_event[died as usize] = stages.of(block.scope, &self.names);
            }
        }
        for run in runs.iter().filter(|run| run.phase == Phase::Backward) {
            fill(&mut by_event[run.start as usize..run.end as usize]);
        }
        by_event
    }

    /// The given steps, the phases, and the stages within them.
    fn spans(&mut self, runs: &Runs, by_event: &[Option<Name>]) -> Vec<Span> {
        let mut spans = std::mem::take(&mut self.steps);
        for run in runs.iter().filter(|run| run.phase != Phase::Idle) {
            let name = self.names.of(run.phase.name());
            spans.push(Span { kind: SpanKind::Phase, name, start: run.start, end: run.end });
            if matches!(run.phase, Phase::Forward | Phase::Backward | Phase::Eval) {
                stage_spans(run, by_event, &mut spans);
            }
        }
        spans.sort_by_key(|span| (span.start, span.kind as u8));
        spans
    }
}

/// Gives events that are known to be busy with nothing to the stage that follows, and those at the end to the last
/// one: what frees an activation is the end of the work on it.
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

/// Adds the block, or the blocks that its holdings split it into.
fn classify<'a>(
    raw: RawBlock,
    holdings: impl Iterator<Item = &'a Held>,
    runs: &Runs,
    blocks: &mut Vec<Block>,
) {
    let mut current = unnamed(fate(&raw, runs), raw);
    let mut since: Option<u32> = None;
    let mut holds_gradient = false;
    for holding in holdings {
        match since {
            None => {}
            Some(_) if holding.category == current.category => continue,
            Some(event) if holding.event <= event => continue,
            Some(_) => {
                let again = Block { born: holding.event, ..current.clone() };
                let before = std::mem::replace(&mut current, again);
                blocks.push(Block { died: Some(holding.event), ..before });
            }
        }
        since = Some(holding.event);
        current.category = holding.category;
        holds_gradient = holding.category == Category::Gradients;
        current.tensor = holding.tensor;
        if holding.dtype != Name::NONE {
            current.shape.clone_from(&holding.shape);
            current.dtype = holding.dtype;
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

fn unnamed(category: Category, raw: RawBlock) -> Block {
    let RawBlock { address, bytes, born, died, phase, scope, operation, shape, dtype } = raw;
    let tensor = Name::NONE;
    Block { address, bytes, category, born, died, phase, scope, operation, tensor, shape, dtype }
}

/// What a block is for, by where it was born and what it outlived.
fn fate(raw: &RawBlock, runs: &Runs) -> Category {
    let Some(run) = runs.of(raw.born) else { return Category::Other };
    if raw.died.is_some_and(|died| died < run.end) && !matches!(raw.phase, Phase::Idle | Phase::Init) {
        return Category::Workspace;
    }
    // Where the timeline ends within the step, what the step holds is not known to outlive it.
    let outlives_step = runs.end_of_step(raw.born).is_some_and(|end| raw.died.is_none_or(|died| died > end));
    match raw.phase {
        Phase::Data => Category::Inputs,
        Phase::Forward if !outlives_step => Category::Activations,
        // Of a micro-batch, until those of the next are added.
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
