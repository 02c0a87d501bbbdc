//! A timeline as columns of numbers: compact in a file, and ready for the page's typed arrays.

use std::collections::HashMap;

use serde::Serialize;

use crate::{
    block::Block,
    span::SpanKind,
    timeline::{Clock, Origin, Timeline},
    track::{Track, TrackSpan},
};

/// A timeline in the page's format. `*_deltas` are differences to the previous value; the first is absolute.
#[derive(Serialize)]
pub(super) struct Columns<'a> {
    origin: Origin,
    clock: Clock,
    device: &'a str,
    limit_bytes: Option<u64>,
    peak_event: u32,
    end: u64,
    time_deltas: Vec<u64>,
    names: &'a [String],
    shapes: Vec<&'a [usize]>,
    blocks: Blocks,
    spans: Vec<(SpanKind, u32, u32, u32)>,
    track: TrackColumns,
}

/// The track of the device: kind, name, start and end of each span.
#[derive(Serialize)]
struct TrackColumns {
    names: Vec<String>,
    spans: Vec<(u8, usize, u64, u64)>,
    transfers: Vec<(u8, usize, u64, u64)>,
}

impl TrackColumns {
    fn new(track: &Track) -> Self {
        let mut known: HashMap<(&str, Option<usize>), usize> = HashMap::new();
        let mut names = Vec::new();
        let mut column = |span: &TrackSpan| {
            let number = *known.entry((span.name, span.number)).or_insert_with(|| {
                names.push(span.to_string());
                names.len() - 1
            });
            (span.kind as u8, number, span.start, span.end)
        };
        let spans = track.spans.iter().map(&mut column).collect();
        let transfers = track.transfers.iter().map(&mut column).collect();
        Self { names, spans, transfers }
    }
}

/// Each column has one entry per block.
#[derive(Default, Serialize)]
struct Blocks {
    bytes: Vec<u64>,
    category: Vec<u8>,
    born_deltas: Vec<i64>,
    /// Events from birth to death; -1 for blocks that outlive the timeline.
    lifetime: Vec<i64>,
    phase: Vec<u8>,
    scope: Vec<u32>,
    operation: Vec<u32>,
    tensor: Vec<u32>,
    dtype: Vec<u32>,
    shape: Vec<u32>,
}

/// The end of the timeline. The last event, which has no duration, gets one operation or 0.5 % of the whole. The track
/// may end later.
pub(super) fn end_time(timeline: &Timeline) -> u64 {
    let (first, last) = match timeline.times[..] {
        [first, .., last] => (first, last),
        [only] => (only, only),
        [] => (0, 0),
    };
    match timeline.clock {
        Clock::Operations => last.saturating_add(1),
        Clock::Nanoseconds => {
            last.saturating_add(1.max(last.saturating_sub(first) / 200)).max(timeline.track.end())
        }
    }
}

/// The time of an event; the end for events after the last.
pub(super) fn time_of(timeline: &Timeline, event: u32) -> u64 {
    timeline.times.get(event as usize).copied().unwrap_or_else(|| end_time(timeline))
}

impl<'a> Columns<'a> {
    pub(super) fn new(timeline: &'a Timeline) -> Self {
        Self::until(timeline, end_time(timeline))
    }

    /// The columns with a given end, shared by several timelines.
    pub(super) fn until(timeline: &'a Timeline, end: u64) -> Self {
        let mut shapes = Shapes::default();
        let mut blocks = Blocks::default();
        let mut before = 0;
        // Blocks born after the last event cannot be drawn.
        for block in timeline.blocks.iter().filter(|block| (block.born as usize) < timeline.times.len()) {
            blocks.push(block, before, shapes.number(&block.shape), timeline.times.len());
            before = block.born;
        }
        Self {
            origin: timeline.origin,
            clock: timeline.clock,
            device: &timeline.device,
            limit_bytes: timeline.limit_bytes.map(|limit| limit.get()),
            peak_event: timeline.peak().event,
            end,
            time_deltas: deltas(&timeline.times),
            names: timeline.names.texts(),
            shapes: shapes.known,
            blocks,
            track: TrackColumns::new(&timeline.track),
            spans: timeline.spans.iter().map(|it| (it.kind, it.name.number(), it.start, it.end)).collect(),
        }
    }
}

impl Blocks {
    fn push(&mut self, block: &Block, before: u32, shape: u32, events: usize) {
        let death = block.died.filter(|&died| (died as usize) < events);
        self.bytes.push(block.bytes);
        self.category.push(block.category as u8);
        self.born_deltas.push(i64::from(block.born) - i64::from(before));
        self.lifetime.push(death.map_or(-1, |died| i64::from(died.saturating_sub(block.born))));
        self.phase.push(block.phase as u8);
        self.scope.push(block.scope.number());
        self.operation.push(block.operation.number());
        self.tensor.push(block.tensor.number());
        self.dtype.push(block.dtype.number());
        self.shape.push(shape);
    }
}

fn deltas(times: &[u64]) -> Vec<u64> {
    let mut before = 0;
    times.iter().map(|&time| time.saturating_sub(std::mem::replace(&mut before, time))).collect()
}

/// Interned shapes.
#[derive(Default)]
struct Shapes<'a> {
    known: Vec<&'a [usize]>,
    numbers: HashMap<&'a [usize], u32>,
}

impl<'a> Shapes<'a> {
    fn number(&mut self, shape: &'a [usize]) -> u32 {
        *self.numbers.entry(shape).or_insert_with(|| {
            self.known.push(shape);
            self.known.len() as u32 - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::tests::sample;

    #[test]
    fn columns_are_differences_and_numbers() {
        let timeline = sample::step(Origin::Measured);
        let json = serde_json::to_value(Columns::new(&timeline)).unwrap();
        let sum = |key: &serde_json::Value| {
            key.as_array().unwrap().iter().filter_map(|it| it.as_i64()).sum::<i64>()
        };
        assert_eq!(sum(&json["time_deltas"]), *timeline.times.last().unwrap() as i64);
        assert_eq!(sum(&json["blocks"]["born_deltas"]), i64::from(timeline.blocks.last().unwrap().born));
        assert_eq!(json["blocks"]["bytes"].as_array().unwrap().len(), timeline.blocks.len());
        assert_eq!(json["shapes"][json["blocks"]["shape"][0].as_u64().unwrap() as usize][0], 64);
    }

    #[test]
    fn the_last_event_lasts_a_little() {
        let planned = Timeline { times: vec![0, 7], ..sample::empty(Origin::Planned) };
        assert_eq!(end_time(&planned), 8);
        let measured = Timeline { times: vec![1_000, 3_000], ..sample::empty(Origin::Measured) };
        assert_eq!(end_time(&measured), 3_010);
        assert_eq!(end_time(&sample::empty(Origin::Measured)), 1);
    }
}
