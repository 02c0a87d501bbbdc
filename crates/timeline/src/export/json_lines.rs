use std::io::{self, BufWriter, Write};

use oomph_core::{Bytes, Phase};
use serde::Serialize;

use crate::{
    block::Block,
    category::Category,
    span::{Span, SpanKind},
    split::Split,
    timeline::{Clock, Origin, Timeline},
    track::{TrackKind, TrackSpan},
};

/// Increased when a key changes its meaning or is removed. Version 2 renamed the lines of a device's track.
const VERSION: u32 = 2;

/// Writes timelines as JSON lines: one object per line, distinguished by `kind`. Unknown values are left out.
///
/// Timelines follow each other. If there are several, each line has its `device`.
///
/// The first line is the head:
///
/// | key | meaning |
/// |---|---|
/// | `kind`, `format_version` | `timeline`, and 2 |
/// | `origin` | `planned` or `measured` |
/// | `title`, `device` | such as `resnet18 · batch 32`, `cuda:0` |
/// | `clock` | the unit of times: `operations` or `nanoseconds` since the start |
/// | `limit_bytes` | the device's memory limit |
/// | `peak_bytes`, `peak_event`, `peak_categories_bytes` | the peak: its bytes, its event, its bytes by category |
/// | `lost_events` | older events that the recorder has overwritten |
/// | `events`, `spans`, `blocks`, `track`, `transfers` | their numbers; the last two are 0 in a plan |
///
/// Then a line for each step, phase and stage:
/// `{"kind":"span","span":"phase","name":"forward","start_event":1,"end_event":4,"start_ns":1500,"end_ns":6000}`. It
/// reaches from before `start_event` to before `end_event`. In a plan the times are `start_operation` and
/// `end_operation`. A missing end is the end of the timeline.
///
/// Then a line for each span of the device's track:
/// `{"kind":"track","does":"forward","name":"forward 3","start_ns":1500,"end_ns":6000}`. The values of `does` are `data`,
/// `forward`, `backward`, `step`, `eval`, `communication` and `idle`. Transfers have the same keys and the kind `transfer`.
///
/// Then a line for each block: `kind` (`block`), `address` (hexadecimal, as text: it may need 64 bits), `bytes`,
/// `category`, `phase`, `scope`, `operation`, `tensor`, `shape`, `dtype`, `born_event`, `died_event`, and their times
/// `born_ns` and `died_ns`, in a plan `born_operation` and `died_operation`. A block without `died_event` outlives the
/// timeline.
///
/// # Errors
/// Errors of `out`.
pub fn json_lines(timelines: &[&Timeline], out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    for timeline in timelines {
        let mut lines = Lines { device: (timelines.len() > 1).then_some(&*timeline.device), out: &mut out };
        lines.whole(&Head::new(timeline))?;
        timeline.spans.iter().try_for_each(|span| lines.part(&SpanLine::new(timeline, span)))?;
        let track = &timeline.track;
        track.spans.iter().try_for_each(|span| lines.part(&TrackLine::new("track", span)))?;
        track.transfers.iter().try_for_each(|span| lines.part(&TrackLine::new("transfer", span)))?;
        timeline.blocks.iter().try_for_each(|block| lines.part(&BlockLine::new(timeline, block)))?;
    }
    out.flush()
}

struct Lines<'a> {
    /// Named in every line if there are several devices.
    device: Option<&'a str>,
    out: &'a mut dyn Write,
}

impl Lines<'_> {
    /// Writes a line that names its device itself.
    fn whole(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut *self.out, value)?;
        self.out.write_all(b"\n")
    }

    fn part(&mut self, line: &impl Serialize) -> io::Result<()> {
        self.whole(&JsonPart { line, device: self.device })
    }
}

/// A line and its device.
#[derive(Serialize)]
struct JsonPart<'a, T> {
    #[serde(flatten)]
    line: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a str>,
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
    #[serde(flatten)]
    counts: Counts,
}

/// How many of each there are.
#[derive(Serialize)]
struct Counts {
    events: usize,
    spans: usize,
    blocks: usize,
    track: usize,
    transfers: usize,
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
            counts: Counts {
                events: timeline.times.len(),
                spans: timeline.spans.len(),
                blocks: timeline.blocks.len(),
                track: timeline.track.spans.len(),
                transfers: timeline.track.transfers.len(),
            },
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
struct TrackLine {
    kind: &'static str,
    does: TrackKind,
    name: String,
    start_ns: u64,
    end_ns: u64,
}

impl TrackLine {
    fn new(kind: &'static str, span: &TrackSpan) -> Self {
        Self { kind, does: span.kind, name: span.to_string(), start_ns: span.start, end_ns: span.end }
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
    #[serde(flatten)]
    lifetime: Lifetime,
}

/// When a block was allocated and freed: the events, and their times.
#[derive(Serialize)]
struct Lifetime {
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
            lifetime: Lifetime::new(timeline, block),
        }
    }
}

impl Lifetime {
    fn new(timeline: &Timeline, block: &Block) -> Self {
        let (born_ns, born_operation) = times(timeline, Some(block.born));
        let (died_ns, died_operation) = times(timeline, block.died);
        let (born_event, died_event) = (block.born, block.died);
        Self { born_event, died_event, born_ns, born_operation, died_ns, died_operation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::sample;

    fn lines(timeline: &Timeline) -> Vec<serde_json::Value> {
        lines_of(&[timeline])
    }

    fn lines_of(timelines: &[&Timeline]) -> Vec<serde_json::Value> {
        let mut out = Vec::new();
        json_lines(timelines, &mut out).unwrap();
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
    fn keys_have_a_fixed_order_on_one_level() {
        let keys = |origin| {
            let mut out = Vec::new();
            json_lines(&[&sample::step(origin)], &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let keys = |line: &str| {
                let pieces = line.split('"').skip(1).step_by(2).zip(line.split('"').skip(2).step_by(2));
                let keys =
                    pieces.filter(|(_, behind)| behind.starts_with(':')).map(|(key, _)| key.to_owned());
                keys.collect::<Vec<_>>().join(" ")
            };
            [
                keys(text.lines().next().unwrap()),
                keys(text.lines().rfind(|line| line.contains("died_event")).unwrap()),
            ]
        };
        let [head, _] = keys(Origin::Measured);
        assert!(
            head.starts_with("kind format_version origin title device clock limit_bytes peak_bytes"),
            "{head}"
        );
        assert!(head.ends_with("lost_events events spans blocks track transfers"), "{head}");
        let [_, block] = keys(Origin::Measured);
        assert!(block.starts_with("kind address bytes category phase"), "{block}");
        assert!(block.contains(" born_event died_event born_ns died_ns"), "{block}");
        let [_, block] = keys(Origin::Planned);
        assert!(block.contains(" born_event died_event born_operation died_operation"), "{block}");
    }

    #[test]
    fn each_line_of_several_devices_names_its_device() {
        let (one, other) = (sample::on_a_device("0 cpu"), sample::on_a_device("1 cpu"));
        let lines = lines_of(&[&one, &other]);
        let of = |device: &str, kind: &str| {
            lines.iter().filter(|line| line["device"] == device && line["kind"] == kind).count()
        };
        for device in ["0 cpu", "1 cpu"] {
            let counts = ["timeline", "span", "track", "transfer", "block"].map(|kind| of(device, kind));
            assert_eq!(counts, [1, 5, 5, 1, 5]);
        }
        let waits = lines.iter().find(|line| line["does"] == "idle").unwrap();
        assert_eq!((&waits["name"], &waits["end_ns"]), (&"waits for device 0".into(), &1_500.into()));
        let alone = lines_of(&[&one]);
        assert!(alone[0]["device"] == "0 cpu" && alone[1..].iter().all(|line| line.get("device").is_none()));
        assert_eq!((&alone[0]["track"], &alone[0]["transfers"]), (&5.into(), &1.into()));
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
