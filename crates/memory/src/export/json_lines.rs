use std::io::{self, BufWriter, Write};

use oomph_core::{Bytes, Phase};
use serde::Serialize;

use crate::{Block, Category, Clock, Origin, Span, SpanKind, Split, Timeline};

/// Increased when a key changes its meaning or goes.
const VERSION: u32 = 1;

/// Writes a timeline as JSON lines: one object a line, told apart by `kind`. What is not known is left out.
///
/// The first line is the head:
///
/// | key | meaning |
/// |---|---|
/// | `kind`, `format_version` | `timeline`, and 1 |
/// | `origin` | `planned` or `measured` |
/// | `title`, `device` | such as `resnet18 · batch 32`, `cuda:0` |
/// | `clock` | what times count: `operations` or `nanoseconds` since the start |
/// | `limit_bytes` | what the device may use |
/// | `peak_bytes`, `peak_event`, `peak_categories_bytes` | the highest moment: its bytes, its event, its bytes by category |
/// | `lost_events` | older events that the recording no longer had |
/// | `events`, `spans`, `blocks` | how many there are |
///
/// Then a line for each step, phase and stage:
/// `{"kind":"span","span":"phase","name":"forward","start_event":1,"end_event":4,"start_ns":1500,"end_ns":6000}`. It
/// reaches from before `start_event` to before `end_event`. In a plan the times are `start_operation` and
/// `end_operation`; an end that is not there is the end of the timeline.
///
/// Then a line for each block: `kind` (`block`), `address` (hexadecimal, as text: it may need 64 bits), `bytes`,
/// `category`, `phase`, `scope`, `operation`, `tensor`, `shape`, `dtype`, `born_event`, `died_event`, and their times
/// `born_ns` and `died_ns`, in a plan `born_operation` and `died_operation`. A block without `died_event` outlived the
/// timeline.
pub fn json_lines(timeline: &Timeline, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    line(&Head::new(timeline), &mut out)?;
    timeline.spans.iter().try_for_each(|span| line(&SpanLine::new(timeline, span), &mut out))?;
    timeline.blocks.iter().try_for_each(|block| line(&BlockLine::new(timeline, block), &mut out))?;
    out.flush()
}

fn line(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct Head<'a> {
    kind: &'static str,
    format_version: u32,
    origin: Origin,
    title: &'a str,
    device: &'a str,
    clock: Clock,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_bytes: Option<Bytes>,
    peak_bytes: Bytes,
    peak_event: u32,
    peak_categories_bytes: Split,
    lost_events: u64,
    events: usize,
    spans: usize,
    blocks: usize,
}

impl<'a> Head<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        let peak = timeline.peak();
        Self {
            kind: "timeline",
            format_version: VERSION,
            origin: timeline.origin,
            title: &timeline.title,
            device: &timeline.device,
            clock: timeline.clock,
            limit_bytes: timeline.limit_bytes,
            peak_bytes: peak.categories.total(),
            peak_event: peak.event,
            peak_categories_bytes: peak.categories,
            lost_events: timeline.lost_events,
            events: timeline.times.len(),
            spans: timeline.spans.len(),
            blocks: timeline.blocks.len(),
        }
    }
}

/// The time of an event, under the key of its unit: nanoseconds, operations.
fn times(timeline: &Timeline, event: Option<u32>) -> (Option<u64>, Option<u64>) {
    let time = event.and_then(|event| timeline.times.get(event as usize).copied());
    match timeline.clock {
        Clock::Nanoseconds => (time, None),
        Clock::Operations => (None, time),
    }
}

#[derive(Serialize)]
struct SpanLine<'a> {
    kind: &'static str,
    span: SpanKind,
    name: &'a str,
    start_event: u32,
    end_event: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_operation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_operation: Option<u64>,
}

impl<'a> SpanLine<'a> {
    fn new(timeline: &'a Timeline, span: &Span) -> Self {
        let (start_ns, start_operation) = times(timeline, Some(span.start));
        let (end_ns, end_operation) = times(timeline, Some(span.end));
        Self {
            kind: "span",
            span: span.kind,
            name: timeline.names.text(span.name),
            start_event: span.start,
            end_event: span.end,
            start_ns,
            start_operation,
            end_ns,
            end_operation,
        }
    }
}

#[derive(Serialize)]
struct BlockLine<'a> {
    kind: &'static str,
    address: String,
    bytes: u64,
    category: Category,
    phase: Phase,
    #[serde(skip_serializing_if = "str::is_empty")]
    scope: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    operation: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    tensor: &'a str,
    #[serde(skip_serializing_if = "<[usize]>::is_empty")]
    shape: &'a [usize],
    #[serde(skip_serializing_if = "str::is_empty")]
    dtype: &'a str,
    born_event: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    died_event: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    born_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    born_operation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    died_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    died_operation: Option<u64>,
}

impl<'a> BlockLine<'a> {
    fn new(timeline: &'a Timeline, block: &'a Block) -> Self {
        let (born_ns, born_operation) = times(timeline, Some(block.born));
        let (died_ns, died_operation) = times(timeline, block.died);
        Self {
            kind: "block",
            address: format!("{:#x}", block.address),
            bytes: block.bytes,
            category: block.category,
            phase: block.phase,
            scope: timeline.names.text(block.scope),
            operation: timeline.names.text(block.operation),
            tensor: timeline.names.text(block.tensor),
            shape: &block.shape,
            dtype: timeline.names.text(block.dtype),
            born_event: block.born,
            died_event: block.died,
            born_ns,
            born_operation,
            died_ns,
            died_operation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::sample;

    fn lines(timeline: &Timeline) -> Vec<serde_json::Value> {
        let mut out = Vec::new();
        json_lines(timeline, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn the_head_comes_first_then_spans_then_blocks() {
        let lines = lines(&sample::step(Origin::Measured));
        let kinds: Vec<_> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds[0], "timeline");
        assert_eq!(kinds[1..].iter().filter(|kind| **kind == "span").count(), 5);
        assert!(kinds[6..].iter().all(|kind| *kind == "block"));
        assert_eq!(lines[0]["peak_bytes"], 3584);
        assert_eq!(lines[0]["peak_categories_bytes"]["workspace"], 2048);
        assert_eq!(lines[0]["limit_bytes"], 1 << 20);
    }

    #[test]
    fn keys_name_their_unit_and_the_unknown_is_left_out() {
        let measured = lines(&sample::step(Origin::Measured));
        let block = measured.iter().find(|line| line["category"] == "workspace").unwrap();
        assert_eq!((&block["born_ns"], &block["died_ns"]), (&3000.into(), &4500.into()));
        assert_eq!(block["operation"], "matmul");
        assert!(block.get("tensor").is_none() && block.get("born_operation").is_none());
        let planned = lines(&sample::step(Origin::Planned));
        let block = planned.iter().find(|line| line["category"] == "optimizer_state").unwrap();
        assert_eq!(block["born_operation"], 5);
        assert!(block.get("died_event").is_none() && block.get("born_ns").is_none());
    }
}
