use std::{cmp::Reverse, ops::Range};

use oomph_core::Bytes;

use crate::{
    block::Block,
    category::Category,
    names::Names,
    span::{Span, SpanKind},
    split::Split,
    track::{Track, TrackKind, TrackTimes},
};

/// Whether a timeline is a plan or a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Predicted by the planner; nothing was executed.
    Planned,
    /// Recorded by the meter.
    Measured,
}

/// The unit of [`Timeline::times`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Recorded tensor operations since the start. A plan has no time.
    Operations,
    /// Nanoseconds since the start.
    Nanoseconds,
}

/// Memory in use on one device from a first event to a last: every block with its birth, its death and its category.
///
/// Events are numbered from 0. Event 0 is the start: blocks born at it existed before. Each event allocates or frees
/// blocks. A block that changes its category dies and is born again at the same address by the same event.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Plan or measurement.
    pub origin: Origin,
    /// The title of reports: `resnet18 · batch 32 · sgd`.
    pub title: String,
    /// The device, such as `cpu` or `cuda:0`.
    pub device: String,
    /// The device's memory limit, if known.
    pub limit_bytes: Option<Bytes>,
    /// In a plan: bytes in host memory instead of on the device, by `memory.offload`, when these are the most.
    pub offloaded: Split,
    /// The unit of `times`.
    pub clock: Clock,
    /// The time of each event; never decreasing. Its length is the number of events.
    pub times: Vec<u64>,
    /// The bytes that a GPU's pools reserve after each event. Empty where memory is not reserved, or unknown.
    pub reserved: Vec<u64>,
    /// As `reserved`, without memory that the pools would give back if the device were full.
    pub occupied: Vec<u64>,
    /// All blocks, ordered by birth.
    pub blocks: Vec<Block>,
    /// Steps, phases and stages, ordered by start, the enclosing one first.
    pub spans: Vec<Span>,
    /// The texts of the names in blocks and spans.
    pub names: Names,
    /// Older events that the recorder has overwritten.
    pub lost_events: u64,
    /// The device's work over time, on the clock of `times`. Empty in a plan.
    pub track: Track,
}

/// The moment of a timeline with the most memory in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// The event after which the most memory was in use; the first of several.
    pub event: u32,
    /// Bytes by category. The total is the peak.
    pub categories: Split,
}

impl Timeline {
    /// A timeline without events, title and device.
    pub fn new(origin: Origin, clock: Clock) -> Self {
        Self {
            origin,
            title: String::new(),
            device: String::new(),
            limit_bytes: None,
            offloaded: Split::default(),
            clock,
            times: Vec::new(),
            reserved: Vec::new(),
            occupied: Vec::new(),
            blocks: Vec::new(),
            spans: Vec::new(),
            names: Names::default(),
            lost_events: 0,
            track: Track::default(),
        }
    }

    /// Bytes in use after each event, by category.
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

    /// The moment with the most memory in use.
    pub fn peak(&self) -> Peak {
        self.peak_within(0..self.times.len() as u32)
    }

    /// The most bytes that the pools reserve; `None` where memory is not reserved, or unknown.
    pub fn reserved_peak(&self) -> Option<Bytes> {
        self.reserved.iter().max().map(|bytes| Bytes::new(*bytes))
    }

    /// The memory that the device must have: the most that its pools cannot give back, else the most in use.
    pub fn needed_bytes(&self) -> Bytes {
        let occupied = self.occupied.iter().max().map(|bytes| Bytes::new(*bytes));
        occupied.unwrap_or_else(|| self.peak().categories.total())
    }

    /// The moment with the most memory in use among `events`.
    pub fn peak_within(&self, events: Range<u32>) -> Peak {
        let levels = self.levels();
        let within = levels.iter().enumerate().take(events.end as usize).skip(events.start as usize);
        let highest = within.max_by_key(|(event, split)| (split.total(), Reverse(*event)));
        highest.map(|(event, split)| Peak { event: event as u32, categories: *split }).unwrap_or_default()
    }

    /// The timeline from event `first` on. Blocks alive at that event exist from the start.
    #[must_use]
    pub fn since(self, first: u32) -> Self {
        let start = self.times.get(first as usize).copied().unwrap_or(0);
        self.beginning(first, start)
    }

    /// The timeline from time `start` on, which becomes time 0. Timelines of several devices can be cut at the same
    /// moment this way.
    #[must_use]
    pub fn since_time(self, start: u64) -> Self {
        let first = self.times.partition_point(|time| *time <= start).saturating_sub(1);
        self.beginning(first as u32, start)
    }

    /// The timeline from event `first` on, whose time is `start` or later.
    fn beginning(mut self, first: u32, start: u64) -> Self {
        let later = |event: u32| event.saturating_sub(first);
        self.times = self.times.split_off((first as usize).min(self.times.len()));
        self.times.iter_mut().for_each(|time| *time = time.saturating_sub(start));
        for bytes in [&mut self.reserved, &mut self.occupied] {
            *bytes = bytes.split_off((first as usize).min(bytes.len()));
        }
        self.track.since(start);
        self.blocks.retain(|block| block.died.is_none_or(|died| died > first));
        for block in &mut self.blocks {
            block.born = later(block.born);
            block.died = block.died.map(later);
        }
        // A span that ends at the start is over.
        self.spans.retain(|span| span.end > first.saturating_add(1));
        for span in &mut self.spans {
            (span.start, span.end) = (later(span.start), later(span.end));
        }
        self
    }

    /// The timeline up to and including event `last`. Blocks freed later outlive it.
    #[must_use]
    pub fn until(mut self, last: u32) -> Self {
        let end = (last as usize + 1).min(self.times.len());
        self.times.truncate(end);
        self.reserved.truncate(end);
        self.occupied.truncate(end);
        self.track.until(self.times.last().copied().unwrap_or(0));
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

    /// Busy, communication and idle time within the optimizer steps; `None` if the track or the steps are unknown.
    pub fn track_times(&self) -> Option<TrackTimes> {
        let mut times = TrackTimes::default();
        self.step_ranges().for_each(|step| times += self.track.times(step));
        (times.total() > 0).then_some(times)
    }

    /// Nanoseconds of an average optimizer step by kind of work, in the order of [`TrackKind::ALL`], without kinds that
    /// took no time. Empty if the track or the steps are unknown. A step ends where the next step or evaluation begins.
    pub fn step_nanoseconds(&self) -> Vec<(TrackKind, u64)> {
        let (mut sums, mut steps) = ([0; TrackKind::ALL.len()], 0);
        for step in self.step_ranges() {
            sums.iter_mut().zip(self.track.nanoseconds(step)).for_each(|(sum, more)| *sum += more);
            steps += 1;
        }
        let average = sums.map(|sum| sum / steps.max(1));
        TrackKind::ALL.into_iter().zip(average).filter(|(_, nanoseconds)| *nanoseconds > 0).collect()
    }

    /// Start and end time of each optimizer step; none if the track is unknown.
    fn step_ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let end = self.end_time();
        let time = move |event: u32| self.times.get(event as usize).copied().unwrap_or(end);
        let steps = self.spans_of(SpanKind::Step).filter(|_| !self.track.is_empty());
        let steps = steps.filter(|step| self.names.text(step.name).starts_with("step"));
        steps.map(move |step| time(step.start)..time(step.end))
    }

    /// The time of the last event or the end of the track, whichever is later.
    pub fn end_time(&self) -> u64 {
        self.times.last().copied().unwrap_or(0).max(self.track.end())
    }

    /// Indices of the blocks alive after `event`, the largest first.
    pub fn alive_after(&self, event: u32) -> Vec<usize> {
        let alive = |block: &Block| block.born <= event && block.died.is_none_or(|died| died > event);
        let mut found: Vec<usize> =
            (0..self.blocks.len()).filter(|&index| alive(&self.blocks[index])).collect();
        found.sort_by_key(|&index| Reverse(self.blocks[index].bytes));
        found
    }

    /// Phase and stage of an event; empty if it is in none.
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
    use crate::track::TrackSpan;

    fn block(bytes: u64, category: Category, born: u32, died: Option<u32>) -> Block {
        Block { category, died, ..Block::new(0, bytes, born) }
    }

    fn timeline(events: usize, blocks: Vec<Block>) -> Timeline {
        let times = (0..events as u64).collect();
        Timeline { times, blocks, ..Timeline::new(Origin::Planned, Clock::Operations) }
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
        assert_eq!(timeline.alive_after(peak.event), [0, 2, 1]);
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
            |start, end| TrackSpan { kind: TrackKind::Forward, name: "forward", number: None, start, end };
        whole.track.spans = vec![span(2, 9), span(12, 25)];
        let later = whole.clone().since_time(15);
        assert_eq!(
            (later.times.as_slice(), later.levels()),
            ([0, 5].as_slice(), whole.levels()[1..].to_vec())
        );
        assert_eq!((later.track.spans, whole.since_time(0).times), (vec![span(0, 10)], vec![0, 10, 20]));
    }

    #[test]
    fn a_track_is_summed_over_optimizer_steps() {
        let mut timeline = timeline(4, Vec::new());
        timeline.times = vec![0, 10, 30, 50];
        let span = |kind, start, end| TrackSpan { kind, name: "it", number: None, start, end };
        timeline.track.spans = vec![span(TrackKind::Forward, 5, 25), span(TrackKind::Eval, 30, 70)];
        assert_eq!(timeline.track_times(), None);
        for (name, start, end) in [("step 3", 1, 2), ("eval batch 1", 2, 4)] {
            let name = timeline.names.of(name);
            timeline.spans.push(Span { kind: SpanKind::Step, name, start, end });
        }
        let expected = TrackTimes { busy: 15, communication: 0, idle: 5 };
        assert_eq!((timeline.track_times(), timeline.end_time()), (Some(expected), 70));
        assert_eq!(timeline.step_nanoseconds(), [(TrackKind::Forward, 15), (TrackKind::Idle, 5)]);
    }

    #[test]
    fn equal_blocks_are_one_holder() {
        let two = || block(8, Category::Activations, 1, None);
        let blocks =
            vec![block(10, Category::Parameters, 0, None), two(), two(), block(1, Category::Inputs, 1, None)];
        let timeline = timeline(2, blocks);
        let found: Vec<_> = timeline
            .holders(1, None, 2)
            .iter()
            .map(|holder| (holder.count, holder.count as u64 * holder.bytes.get()))
            .collect();
        assert_eq!(found, [(1, 10), (2, 16)]);
        assert!(timeline.holders(0, None, 5).len() == 1);
    }

    #[test]
    fn an_empty_timeline_has_no_peak() {
        assert_eq!(timeline(0, Vec::new()).peak().categories.total(), Bytes::default());
    }
}
