use std::collections::HashMap;

use oomph_advice::planning::STEPS;
use oomph_config::{Config, MicroBatch, Recompute, sections::memory::Gradients};
use oomph_core::Bytes;
use oomph_timeline::{Span, SpanKind, Timeline};

/// Planned bytes in use at the boundaries of the last planned step, to compare with the readings of a
/// [`PoolWatch`](crate::PoolWatch). Of several micro-batches, the most bytes count.
#[derive(Clone, Debug)]
pub struct PlannedBoundaries {
    bytes: HashMap<(String, String), Bytes>,
    /// Whether the planned phase of backward ends at another moment than the one at which the pools are read.
    ends_elsewhere: bool,
}

impl PlannedBoundaries {
    /// The boundaries of a plan of [`STEPS`] steps of a training with this configuration. Where backward computes stages again,
    /// the pools are not read.
    pub fn of(planned: &Timeline, config: &Config) -> Self {
        let micro_batch = config.memory.micro_batch;
        let accumulates = micro_batch.is_some_and(|part| part != MicroBatch::Samples(config.train.batch));
        let releases = config.memory.gradients == Gradients::Release;
        let recomputes = config.memory.recompute != Recompute::None;
        Self { bytes: levels(planned, recomputes), ends_elsewhere: accumulates || releases }
    }

    /// Bytes in use where the stage ends in the phase. An empty stage means the end of the phase.
    pub fn bytes(&self, phase: &str, stage: &str) -> Option<Bytes> {
        self.bytes.get(&(phase.to_owned(), stage.to_owned())).copied()
    }

    /// Whether plan and pools mean the same moment. The pools are read before the gradients of a micro-batch are added to those
    /// of the others; the planned phase of backward ends behind that. Where gradients are released, it ends at each stage.
    pub fn is_comparable(&self, phase: &str, stage: &str) -> bool {
        !(self.ends_elsewhere && phase == "backward" && stage.is_empty())
    }
}

fn levels(planned: &Timeline, recomputes: bool) -> HashMap<(String, String), Bytes> {
    let name = |span: &Span| planned.names.text(span.name).to_owned();
    let last = format!("step {STEPS}");
    let Some(step) = planned.spans_of(SpanKind::Step).find(|span| name(span) == last) else {
        return HashMap::new();
    };
    let spans: Vec<_> =
        planned.spans.iter().filter(|span| (step.start..step.end).contains(&span.start)).collect();
    let phases: Vec<_> = spans.iter().filter(|span| span.kind == SpanKind::Phase).collect();
    // Forward and backward alternate without another phase between them but the steps that release gradients.
    let is_again = |index: usize| {
        let is_behind = || matches!(name(phases[index - 1]).as_str(), "backward" | "step");
        recomputes && index > 0 && name(phases[index]) == "forward" && is_behind()
    };
    let totals: Vec<Bytes> = planned.levels().iter().map(|split| split.total()).collect();
    let mut levels = HashMap::new();
    for (index, phase) in phases.iter().enumerate().filter(|(index, _)| !is_again(*index)) {
        let stages = spans.iter().filter(|span| span.kind == SpanKind::Stage);
        let within = stages.filter(|span| (phase.start..phase.end).contains(&span.start));
        let is_whole = index + 1 == phases.len() || !is_again(index + 1);
        let end = is_whole.then_some((String::new(), phase.end));
        for (stage, end) in within.map(|span| (name(span), span.end)).chain(end) {
            let bytes = totals.get(end.saturating_sub(1) as usize).copied().unwrap_or_default();
            let level: &mut Bytes = levels.entry((name(phase), stage)).or_default();
            *level = bytes.max(*level);
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Registry, open_to_plan};
    use oomph_advice::planning::{PlanOptions, plan};

    #[test]
    fn backward_ends_with_less_than_forward() {
        let text = "model = { name = 'lstm', hidden = 8 }
            data = { source = 'digits', layout = 'rows', workers = 0 }
            train = { steps = 3, batch = 16, eval_every = 'never' }";
        let session = open_to_plan(Config::from_toml("test", text).unwrap(), &Registry::builtin()).unwrap();
        let planned =
            PlannedBoundaries::of(&plan(&session, PlanOptions::default()).unwrap(), &session.config);
        let [forward, backward] = ["forward", "backward"].map(|phase| planned.bytes(phase, "").unwrap());
        assert!(forward > backward && backward > Bytes::default(), "{forward} {backward}");
        let stage = &session.stages[0];
        assert!(planned.bytes("forward", stage).unwrap() > Bytes::default());
        assert_eq!(planned.bytes("forward", "no stage"), None);
    }
}
