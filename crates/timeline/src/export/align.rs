//! Maps the times of a plan, in operations, to those of another timeline, such as a measurement in nanoseconds.

use std::{cmp::Ordering, collections::HashMap};

use super::columns::{end_time, time_of};
use crate::{
    names::Name,
    span::{Span, SpanKind},
    timeline::Timeline,
};

/// Pairs of corresponding times, one of each timeline. Times between two pairs are interpolated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Alignment {
    anchors: Vec<(u64, u64)>,
}

/// Corresponding spans of two timelines.
type Pairs<'a> = Vec<(&'a Span, &'a Span)>;

impl Alignment {
    /// Matches steps by name, or in order if no name is common; phases by name and order within their step; stages within
    /// their phase. If nothing matches, the whole plan is stretched over the whole of the other timeline.
    pub(super) fn new(plan: &Timeline, onto: &Timeline) -> Self {
        let whole = (&whole(plan), &whole(onto));
        let steps = steps(plan, onto);
        let outer = if steps.is_empty() { vec![whole] } else { steps.clone() };
        let phases = within(plan, onto, &outer, SpanKind::Phase);
        let inner = if phases.is_empty() { &outer } else { &phases };
        let stages = within(plan, onto, inner, SpanKind::Stage);
        let matched = steps.iter().chain(&phases).chain(&stages);
        let ends = matched.flat_map(|(a, b)| {
            [(time_of(plan, a.start), time_of(onto, b.start)), (time_of(plan, a.end), time_of(onto, b.end))]
        });
        let anchors = rising(ends.collect());
        if anchors.len() > 1 {
            return Self { anchors };
        }
        let start = (time_of(plan, 0), time_of(onto, 0));
        Self { anchors: vec![start, (end_time(plan), end_time(onto))] }
    }

    /// The time of the other timeline at a time of the plan; `None` outside the matched spans.
    pub(super) fn time(&self, plan: u64) -> Option<f64> {
        let after = self.anchors.partition_point(|&(time, _)| time <= plan);
        let &(from, onto) = self.anchors.get(after.checked_sub(1)?)?;
        let Some(&(to, onto_end)) = self.anchors.get(after) else {
            return (from == plan).then_some(onto as f64);
        };
        let part = (plan - from) as f64 / (to - from) as f64;
        Some(onto as f64 + part * (onto_end - onto) as f64)
    }
}

fn whole(timeline: &Timeline) -> Span {
    Span { kind: SpanKind::Step, name: Name::NONE, start: 0, end: timeline.times.len() as u32 }
}

fn steps<'a>(plan: &'a Timeline, onto: &'a Timeline) -> Pairs<'a> {
    let all = |timeline: &'a Timeline| timeline.spans_of(SpanKind::Step).collect::<Vec<_>>();
    let (ours, theirs) = (all(plan), all(onto));
    let named = matching(plan, &ours, onto, &theirs);
    if named.is_empty() { ours.into_iter().zip(theirs).collect() } else { named }
}

/// Pairs of spans of `kind` within pairs of enclosing spans.
fn within<'a>(plan: &'a Timeline, onto: &'a Timeline, outer: &Pairs<'_>, kind: SpanKind) -> Pairs<'a> {
    let inside = |timeline: &'a Timeline, outer: &Span| -> Vec<&'a Span> {
        let is_inside = |span: &&Span| span.start >= outer.start && span.end <= outer.end;
        timeline.spans_of(kind).filter(is_inside).collect()
    };
    outer.iter().flat_map(|(a, b)| matching(plan, &inside(plan, a), onto, &inside(onto, b))).collect()
}

/// Pairs the first span of a name with the first of that name, the second with the second, and so on.
fn matching<'a>(plan: &Timeline, ours: &[&'a Span], onto: &Timeline, theirs: &[&'a Span]) -> Pairs<'a> {
    let mut named: HashMap<&str, Vec<&Span>> = HashMap::new();
    for span in theirs.iter().rev() {
        named.entry(onto.names.text(span.name)).or_default().push(span);
    }
    let partner = |span: &&'a Span| Some((*span, named.get_mut(plan.names.text(span.name))?.pop()?));
    ours.iter().filter_map(partner).collect()
}

/// The anchors in order, without those that would let time run backwards.
fn rising(mut anchors: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    anchors.sort_unstable();
    let mut kept: Vec<(u64, u64)> = Vec::new();
    for (from, onto) in anchors {
        match kept.last().map(|last| (last.0.cmp(&from), last.1 <= onto)) {
            None | Some((Ordering::Less, true)) => kept.push((from, onto)),
            Some(_) => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        export::tests::sample,
        timeline::{Clock, Origin},
    };

    fn with_spans(clock: Clock, times: Vec<u64>, spans: &[(SpanKind, &str, u32, u32)]) -> Timeline {
        let origin = if clock == Clock::Operations { Origin::Planned } else { Origin::Measured };
        let mut timeline = Timeline { clock, times, ..sample::empty(origin) };
        for &(kind, name, start, end) in spans {
            let name = timeline.names.of(name);
            timeline.spans.push(Span { kind, name, start, end });
        }
        timeline
    }

    const PHASES: [(SpanKind, &str, u32, u32); 3] = [
        (SpanKind::Step, "step 1", 1, 5),
        (SpanKind::Phase, "forward", 1, 3),
        (SpanKind::Phase, "backward", 3, 5),
    ];

    #[test]
    fn phases_coincide_and_times_within_are_interpolated() {
        let plan = with_spans(Clock::Operations, vec![0, 1, 2, 3, 4], &PHASES);
        let measured = with_spans(Clock::Nanoseconds, vec![0, 1_000, 1_100, 5_000, 5_900], &PHASES);
        let alignment = Alignment::new(&plan, &measured);
        assert_eq!(alignment.time(1), Some(1_000.0));
        assert_eq!(alignment.time(2), Some(3_000.0));
        assert_eq!(alignment.time(3), Some(5_000.0));
        assert_eq!(alignment.time(0), None);
    }

    #[test]
    fn a_planned_step_finds_the_step_of_its_name() {
        let spans = [(SpanKind::Step, "step 1", 0, 2), (SpanKind::Step, "step 2", 2, 4)];
        let measured = with_spans(Clock::Nanoseconds, vec![0, 10, 20, 30], &spans);
        let plan = with_spans(Clock::Operations, vec![0, 1], &[(SpanKind::Step, "step 2", 0, 2)]);
        assert_eq!(Alignment::new(&plan, &measured).time(0), Some(20.0));
        let unnamed = with_spans(Clock::Operations, vec![0, 1], &[(SpanKind::Step, "a step", 0, 2)]);
        assert_eq!(Alignment::new(&unnamed, &measured).time(0), Some(0.0));
    }

    #[test]
    fn where_nothing_matches_the_whole_is_stretched() {
        let plan = with_spans(Clock::Operations, vec![0, 5, 9], &[]);
        let measured = with_spans(Clock::Nanoseconds, vec![100, 1_090], &PHASES[1..2]);
        let alignment = Alignment::new(&plan, &measured);
        assert_eq!(alignment.time(0), Some(100.0));
        assert_eq!(alignment.time(10), Some(end_time(&measured) as f64));
    }

    #[test]
    fn time_never_runs_backwards() {
        assert_eq!(rising(vec![(3, 9), (1, 5), (2, 4), (3, 7), (4, 8)]), [(1, 5), (3, 7), (4, 8)]);
    }
}
