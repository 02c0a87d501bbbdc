use oomph_core::Phase;

use crate::{names::Name, span::Span};

/// Consecutive events of one phase, from `start` to before `end`. Blocks are classified by whether they outlive the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) phase: Phase,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// All runs of a timeline.
#[derive(Debug)]
pub(super) struct Runs {
    /// They follow each other without gaps.
    runs: Vec<Run>,
    /// The first event after each finished step.
    step_ends: Vec<u32>,
}

impl Runs {
    /// The runs of `points`, cut where a step begins or ends: evaluation batches follow each other without a phase
    /// in between.
    pub(super) fn new(points: &[(Phase, Name)], steps: &[Span]) -> Self {
        let mut is_cut = vec![false; points.len()];
        for at in steps.iter().flat_map(|step| [step.start, step.end]) {
            if let Some(cut) = is_cut.get_mut(at as usize) {
                *cut = true;
            }
        }
        let mut runs: Vec<Run> = Vec::new();
        for (event, (&(phase, _), is_cut)) in (0..).zip(points.iter().zip(is_cut)) {
            match runs.last_mut() {
                Some(run) if run.phase == phase && !is_cut => run.end = event + 1,
                _ => runs.push(Run { phase, start: event, end: event + 1 }),
            }
        }
        let mut step_ends: Vec<u32> = steps.iter().map(|step| step.end).collect();
        step_ends.sort_unstable();
        step_ends.retain(|end| (*end as usize) < points.len());
        Self { runs, step_ends }
    }

    /// The first event after the step of `event`; `None` if the timeline ends before.
    pub(super) fn end_of_step(&self, event: u32) -> Option<u32> {
        let after = self.step_ends.partition_point(|end| *end <= event);
        self.step_ends.get(after).copied()
    }

    pub(super) fn of(&self, event: u32) -> Option<Run> {
        self.runs.get(self.runs.partition_point(|run| run.end <= event)).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Run> {
        self.runs.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::SpanKind;

    #[test]
    fn runs_end_with_the_phase_and_with_the_step() {
        let points = [Phase::Idle, Phase::Eval, Phase::Eval, Phase::Eval, Phase::Idle]
            .map(|phase| (phase, Name::NONE));
        let step = Span { kind: SpanKind::Step, name: Name::NONE, start: 1, end: 3 };
        let runs = Runs::new(&points, &[step]);
        let seen: Vec<_> = runs.iter().map(|run| (run.phase, run.start, run.end)).collect();
        assert_eq!(
            seen,
            [(Phase::Idle, 0, 1), (Phase::Eval, 1, 3), (Phase::Eval, 3, 4), (Phase::Idle, 4, 5)]
        );
        assert_eq!(runs.of(3).map(|run| run.start), Some(3));
        assert_eq!(runs.of(5), None);
    }
}
