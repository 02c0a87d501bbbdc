//! What was, or will be, in use at each moment, and for what.

mod assemble;
mod category;
mod draft;
mod holders;
mod holdings;
mod lane;
mod names;
mod runs;
mod split;
mod stages;

use std::{cmp::Reverse, ops::Range};

use oomph_core::{Bytes, Phase};

pub use category::Category;
pub use draft::{Draft, Held, RawBlock};
pub use holders::Holder;
pub(crate) use holdings::match_blocks;
pub use lane::{Lane, LaneKind, LaneSpan, LaneTimes};
pub use names::{Name, Names};
pub use split::Split;

/// Whether a timeline was predicted or seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Predicted by the planner; nothing was executed.
    Planned,
    /// Recorded by the meter.
    Measured,
}

/// What [`Timeline::times`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Recorded tensor operations since the start: a plan has no time.
    Operations,
    /// Nanoseconds since the start.
    Nanoseconds,
}

/// Memory in use on one device over a stretch of work: every block with its birth, its death and what it is for.
///
/// Events are numbered from 0. Event 0 is the start: what is born at it was there before. At each event blocks are
/// born or die; a block whose category changes dies and is born again at the same address by the same event.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Predicted or seen.
    pub origin: Origin,
    /// For the head of a report: `resnet18 · batch 32 · sgd`.
    pub title: String,
    /// The device, such as `cpu` or `cuda:0`.
    pub device: String,
    /// What the device may use, where that is known.
    pub limit_bytes: Option<Bytes>,
    /// The unit of `times`.
    pub clock: Clock,
    /// The time of each event; never decreasing. Its length is the number of events.
    pub times: Vec<u64>,
    /// All blocks, ordered by birth.
    pub blocks: Vec<Block>,
    /// Steps, phases and stages, ordered by start, the enclosing one first.
    pub spans: Vec<Span>,
    /// The texts that blocks and spans refer to.
    pub names: Names,
    /// Older events that the recording no longer had.
    pub lost_events: u64,
    /// What the device did when: of a measurement, where it was noted. Its clock is that of `times`.
    pub lane: Lane,
}

/// A stretch of memory that was in use from one event to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Where it lies. In a plan, a number that live blocks do not share.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// What it is for.
    pub category: Category,
    /// The event that made it.
    pub born: u32,
    /// The event that freed it; `None` where it outlived the timeline.
    pub died: Option<u32>,
    /// The phase it was born in.
    pub phase: Phase,
    /// The stage, layer or user's scope it belongs to, such as `layer1.0.conv1`.
    pub scope: Name,
    /// The operation that made it, where known: `conv2d`.
    pub operation: Name,
    /// Which tensor it is, where known: `layer1.0.conv1.weight`.
    pub tensor: Name,
    /// The tensor's shape, where known.
    pub shape: Vec<usize>,
    /// The element type, where known: `f32`.
    pub dtype: Name,
}

/// What a span shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// An optimizer step, or an evaluation batch.
    Step,
    /// A phase within it.
    Phase,
    /// A stage within a phase.
    Stage,
}

/// A named stretch of a timeline: from before event `start` to before event `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What it shows.
    pub kind: SpanKind,
    /// Its name: `step 3`, `backward`, `layer1.0`.
    pub name: Name,
    /// The first event in it.
    pub start: u32,
    /// The first event after it.
    pub end: u32,
}

/// The highest moment of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The event after which the most was in use; the first of several.
    pub event: u32,
    /// By category. The total is the peak.
    pub categories: Split,
    /// Indices of the blocks alive then, the largest first.
    pub blocks: Vec<usize>,
}

impl Timeline {
    /// What is in use after each event, by category.
    pub fn levels(&self) -> Vec<Split> {
        let mut changes = vec![(Split::default(), Split::default()); self.times.len()];
        for block in &self.blocks {
            if let Some((born, _)) = changes.get_mut(block.born as usize) {
                *born += (block.category, block.bytes);
            }
            if let Some((_, died)) = block.died.and_then(|event| changes.get_mut(event as usize)) {
                *died += (block.category, block.bytes);
            }
        }
        let mut level = Split::default();
        let step = |(born, died): (Split, Split)| {
            for category in Category::ALL {
                level[category] = (level[category] + born[category]).saturating_sub(died[category]);
            }
            level
        };
        changes.into_iter().map(step).collect()
    }

    /// The highest moment.
    pub fn peak(&self) -> Peak {
        self.peak_within(0..self.times.len() as u32)
    }

    /// The highest moment among `events`.
    pub fn peak_within(&self, events: Range<u32>) -> Peak {
        let levels = self.levels();
        let within = levels.iter().enumerate().take(events.end as usize).skip(events.start as usize);
        let highest = within.max_by_key(|(event, split)| (split.total(), Reverse(*event)));
        let (event, categories) =
            highest.map_or((0, Split::default()), |(event, split)| (event as u32, *split));
        Peak { event, categories, blocks: self.alive_after(event) }
    }

    /// The timeline from event `first` on. What is alive then is there from the start.
    #[must_use]
    pub fn since(self, first: u32) -> Self {
        let start = self.times.get(first as usize).copied().unwrap_or(0);
        self.beginning(first, start)
    }

    /// The timeline from a moment on, which is the new beginning of its times. So those of several devices begin at the
    /// same moment.
    #[must_use]
    pub fn since_time(self, start: u64) -> Self {
        let first = self.times.partition_point(|time| *time <= start).saturating_sub(1);
        self.beginning(first as u32, start)
    }

    /// The timeline from event `first` on, at which it is `start` or later.
    fn beginning(mut self, first: u32, start: u64) -> Self {
        let later = |event: u32| event.saturating_sub(first);
        self.times = self.times.split_off((first as usize).min(self.times.len()));
        self.times.iter_mut().for_each(|time| *time = time.saturating_sub(start));
        self.lane.since(start);
        self.blocks.retain(|block| block.died.is_none_or(|died| died > first));
        for block in &mut self.blocks {
            block.born = later(block.born);
            block.died = block.died.map(later);
        }
        // What ends with the start is over.
        self.spans.retain(|span| span.end > first.saturating_add(1));
        for span in &mut self.spans {
            (span.start, span.end) = (later(span.start), later(span.end));
        }
        self
    }

    /// The timeline up to event `last` and with it. What dies later outlives it.
    #[must_use]
    pub fn until(mut self, last: u32) -> Self {
        let end = (last as usize + 1).min(self.times.len());
        self.times.truncate(end);
        self.lane.until(self.times.last().copied().unwrap_or(0));
        let is_within = |event: &u32| (*event as usize) < end;
        self.blocks.retain(|block| is_within(&block.born));
        for block in &mut self.blocks {
            block.died = block.died.filter(is_within);
        }
        self.spans.retain(|span| is_within(&span.start));
        for span in &mut self.spans {
            span.end = span.end.min(end as u32);
        }
        self
    }

    /// How long the device did what in the optimizer steps of the timeline; `None` where its lane or the steps are not
    /// known.
    pub fn lane_times(&self) -> Option<LaneTimes> {
        let mut times = LaneTimes::default();
        self.step_stretches().for_each(|step| times += self.lane.times(step));
        (times.total() > 0).then_some(times)
    }

    /// The nanoseconds of an optimizer step of the timeline in which the device did what, on average, in the order of
    /// [`LaneKind::ALL`]: nothing where its lane or the steps are not known. A step ends where the next one, or an
    /// evaluation, begins.
    pub fn step_nanoseconds(&self) -> Vec<(LaneKind, u64)> {
        let (mut sums, mut steps) = ([0; LaneKind::ALL.len()], 0);
        for step in self.step_stretches() {
            sums.iter_mut().zip(self.lane.nanoseconds(step)).for_each(|(sum, more)| *sum += more);
            steps += 1;
        }
        let average = sums.map(|sum| sum / steps.max(1));
        LaneKind::ALL.into_iter().zip(average).filter(|(_, nanoseconds)| *nanoseconds > 0).collect()
    }

    /// From when to when each optimizer step was, where the lane is known.
    fn step_stretches(&self) -> impl Iterator<Item = Range<u64>> {
        let end = self.end_time();
        let time = move |event: u32| self.times.get(event as usize).copied().unwrap_or(end);
        let steps = self.spans_of(SpanKind::Step).filter(|_| !self.lane.is_empty());
        let steps = steps.filter(|step| self.names.text(step.name).starts_with("step"));
        steps.map(move |step| time(step.start)..time(step.end))
    }

    /// The last moment that anything is known of.
    pub fn end_time(&self) -> u64 {
        self.times.last().copied().unwrap_or(0).max(self.lane.end())
    }

    /// Indices of the blocks alive after `event`, the largest first.
    pub fn alive_after(&self, event: u32) -> Vec<usize> {
        let alive = |block: &Block| block.born <= event && block.died.is_none_or(|died| died > event);
        let mut found: Vec<usize> =
            (0..self.blocks.len()).filter(|&index| alive(&self.blocks[index])).collect();
        found.sort_by_key(|&index| Reverse(self.blocks[index].bytes));
        found
    }

    /// Phase and stage that an event belongs to; empty where it is in none.
    pub fn place_of(&self, event: u32) -> (&str, &str) {
        let within = |kind| {
            let mut spans = self.spans_of(kind).filter(|span| (span.start..span.end).contains(&event));
            spans.next().map_or("", |span| self.names.text(span.name))
        };
        (within(SpanKind::Phase), within(SpanKind::Stage))
    }

    /// The spans of one kind, in order.
    pub fn spans_of(&self, kind: SpanKind) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(move |span| span.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: u64, category: Category, born: u32, died: Option<u32>) -> Block {
        Block {
            address: 0,
            bytes,
            category,
            born,
            died,
            phase: Phase::Forward,
            scope: Name::NONE,
            operation: Name::NONE,
            tensor: Name::NONE,
            shape: Vec::new(),
            dtype: Name::NONE,
        }
    }

    fn timeline(events: usize, blocks: Vec<Block>) -> Timeline {
        Timeline {
            origin: Origin::Planned,
            title: String::new(),
            device: "cpu".into(),
            limit_bytes: None,
            clock: Clock::Operations,
            times: (0..events as u64).collect(),
            blocks,
            spans: Vec::new(),
            names: Names::default(),
            lost_events: 0,
            lane: Lane::default(),
        }
    }

    #[test]
    fn levels_follow_births_and_deaths() {
        let blocks = vec![
            block(10, Category::Parameters, 0, None),
            block(5, Category::Activations, 1, Some(3)),
            block(7, Category::Workspace, 2, Some(3)),
        ];
        let timeline = timeline(4, blocks);
        let totals: Vec<u64> = timeline.levels().iter().map(|split| split.total().get()).collect();
        assert_eq!(totals, [10, 15, 22, 10]);
        let peak = timeline.peak();
        assert_eq!((peak.event, peak.categories.total().get()), (2, 22));
        assert_eq!(peak.blocks, [0, 2, 1]);
        assert_eq!(peak.categories.of(Category::Workspace).get(), 7);
    }

    #[test]
    fn a_change_of_category_is_no_change_of_the_total() {
        let blocks =
            vec![block(8, Category::Gradients, 1, Some(2)), block(8, Category::OptimizerState, 2, None)];
        let timeline = timeline(3, blocks);
        let levels = timeline.levels();
        assert_eq!(levels[1].total(), levels[2].total());
        assert_eq!(levels[2].of(Category::Gradients).get(), 0);
        assert_eq!(timeline.alive_after(2), [1]);
    }

    #[test]
    fn a_timeline_can_begin_later() {
        let blocks = vec![
            block(10, Category::Parameters, 0, None),
            block(5, Category::Workspace, 1, Some(2)),
            block(7, Category::Activations, 1, Some(3)),
        ];
        let whole = timeline(4, blocks);
        let (levels, later) = (whole.levels(), whole.clone().since(2));
        assert_eq!(later.levels(), levels[2..]);
        assert_eq!((later.blocks.len(), later.times.as_slice()), (2, [0, 1].as_slice()));
    }

    #[test]
    fn a_timeline_can_end_earlier() {
        let blocks = vec![
            block(10, Category::Parameters, 0, None),
            block(5, Category::Workspace, 1, Some(2)),
            block(7, Category::Activations, 1, Some(3)),
            block(9, Category::Activations, 3, None),
        ];
        let whole = timeline(4, blocks);
        let (levels, earlier) = (whole.levels(), whole.clone().until(2));
        assert_eq!(earlier.levels(), levels[..3]);
        assert_eq!((earlier.blocks.len(), earlier.blocks[2].died), (3, None));
        assert_eq!(whole.clone().until(9), whole);
    }

    #[test]
    fn a_timeline_can_begin_between_two_events() {
        let blocks =
            vec![block(10, Category::Parameters, 0, None), block(5, Category::Workspace, 1, Some(2))];
        let mut whole = timeline(3, blocks);
        whole.times = vec![0, 10, 20];
        let span =
            |start, end| LaneSpan { kind: LaneKind::Forward, name: "forward", number: None, start, end };
        whole.lane.spans = vec![span(2, 9), span(12, 25)];
        let later = whole.clone().since_time(15);
        assert_eq!(
            (later.times.as_slice(), later.levels()),
            ([0, 5].as_slice(), whole.levels()[1..].to_vec())
        );
        assert_eq!((later.lane.spans, whole.since_time(0).times), (vec![span(0, 10)], vec![0, 10, 20]));
    }

    #[test]
    fn the_times_of_a_lane_are_those_of_optimizer_steps() {
        let mut timeline = timeline(4, Vec::new());
        timeline.times = vec![0, 10, 30, 50];
        let span = |kind, start, end| LaneSpan { kind, name: "it", number: None, start, end };
        timeline.lane.spans = vec![span(LaneKind::Forward, 5, 25), span(LaneKind::Eval, 30, 70)];
        assert_eq!(timeline.lane_times(), None);
        for (name, start, end) in [("step 3", 1, 2), ("eval batch 1", 2, 4)] {
            let name = timeline.names.of(name);
            timeline.spans.push(Span { kind: SpanKind::Step, name, start, end });
        }
        let expected = LaneTimes { busy: 15, communication: 0, idle: 5 };
        assert_eq!((timeline.lane_times(), timeline.end_time()), (Some(expected), 70));
        assert_eq!(timeline.step_nanoseconds(), [(LaneKind::Forward, 15), (LaneKind::Idle, 5)]);
    }

    #[test]
    fn blocks_that_are_alike_hold_together() {
        let two = || block(8, Category::Activations, 1, None);
        let blocks =
            vec![block(10, Category::Parameters, 0, None), two(), two(), block(1, Category::Inputs, 1, None)];
        let timeline = timeline(2, blocks);
        let found: Vec<_> = timeline
            .holders(1, None, 2)
            .iter()
            .map(|holder| (holder.count, holder.total_bytes().get()))
            .collect();
        assert_eq!(found, [(1, 10), (2, 16)]);
        assert!(timeline.holders(0, None, 5).len() == 1);
    }

    #[test]
    fn an_empty_timeline_has_no_peak() {
        assert_eq!(timeline(0, Vec::new()).peak().categories.total(), Bytes::default());
    }
}
