use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::{
    block::Block,
    span::Span,
    timeline::{Clock, Timeline},
    track::TrackSpan,
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
        let device = (timelines.len() > 1).then_some(&*timeline.device);
        let mut lines = Lines { timeline, device, is_open: false, out: &mut out };
        lines.head()?;
        timeline.spans.iter().try_for_each(|span| lines.span(span))?;
        timeline.track.spans.iter().try_for_each(|span| lines.track("track", span))?;
        timeline.track.transfers.iter().try_for_each(|span| lines.track("transfer", span))?;
        timeline.blocks.iter().try_for_each(|block| lines.block(block))?;
    }
    out.flush()
}

/// Writes each line entry by entry.
struct Lines<'a> {
    timeline: &'a Timeline,
    /// Named in every line if there are several devices.
    device: Option<&'a str>,
    /// Whether the line has an entry.
    is_open: bool,
    out: &'a mut dyn Write,
}

impl Lines<'_> {
    fn entry(&mut self, key: &str, value: impl Serialize) -> io::Result<()> {
        let before = if std::mem::replace(&mut self.is_open, true) { "," } else { "{" };
        write!(self.out, "{before}\"{key}\":")?;
        Ok(serde_json::to_writer(&mut *self.out, &value)?)
    }

    /// Writes an entry, unless its value is unknown.
    fn known(&mut self, key: &str, value: Option<impl Serialize>) -> io::Result<()> {
        value.map_or(Ok(()), |value| self.entry(key, value))
    }

    /// Writes the time of an event, under the first key in nanoseconds, under the second in operations.
    fn time(&mut self, [nanoseconds, operation]: [&str; 2], event: Option<u32>) -> io::Result<()> {
        let key = match self.timeline.clock {
            Clock::Nanoseconds => nanoseconds,
            Clock::Operations => operation,
        };
        self.known(key, event.and_then(|event| self.timeline.times.get(event as usize)))
    }

    /// Ends a line that names its device itself.
    fn end(&mut self) -> io::Result<()> {
        self.is_open = false;
        self.out.write_all(b"}\n")
    }

    fn end_part(&mut self) -> io::Result<()> {
        self.known("device", self.device)?;
        self.end()
    }

    fn head(&mut self) -> io::Result<()> {
        let timeline = self.timeline;
        let peak = timeline.peak();
        self.entry("kind", "timeline")?;
        self.entry("format_version", VERSION)?;
        self.entry("origin", timeline.origin)?;
        self.entry("title", &timeline.title)?;
        self.entry("device", &timeline.device)?;
        self.entry("clock", timeline.clock)?;
        self.known("limit_bytes", timeline.limit_bytes)?;
        self.entry("peak_bytes", peak.categories.total())?;
        self.entry("peak_event", peak.event)?;
        self.entry("peak_categories_bytes", peak.categories)?;
        self.entry("lost_events", timeline.lost_events)?;
        self.entry("events", timeline.times.len())?;
        self.entry("spans", timeline.spans.len())?;
        self.entry("blocks", timeline.blocks.len())?;
        self.entry("track", timeline.track.spans.len())?;
        self.entry("transfers", timeline.track.transfers.len())?;
        self.end()
    }

    fn span(&mut self, span: &Span) -> io::Result<()> {
        self.entry("kind", "span")?;
        self.entry("span", span.kind)?;
        self.entry("name", self.timeline.names.text(span.name))?;
        self.entry("start_event", span.start)?;
        self.entry("end_event", span.end)?;
        self.time(["start_ns", "start_operation"], Some(span.start))?;
        self.time(["end_ns", "end_operation"], Some(span.end))?;
        self.end_part()
    }

    fn track(&mut self, kind: &str, span: &TrackSpan) -> io::Result<()> {
        self.entry("kind", kind)?;
        self.entry("does", span.kind)?;
        self.entry("name", span.to_string())?;
        self.entry("start_ns", span.start)?;
        self.entry("end_ns", span.end)?;
        self.end_part()
    }

    fn block(&mut self, block: &Block) -> io::Result<()> {
        let names = &self.timeline.names;
        let text = |name| Some(names.text(name)).filter(|text| !text.is_empty());
        self.entry("kind", "block")?;
        self.entry("address", format!("{:#x}", block.address))?;
        self.entry("bytes", block.bytes)?;
        self.entry("category", block.category)?;
        self.entry("phase", block.phase)?;
        self.known("scope", text(block.scope))?;
        self.known("operation", text(block.operation))?;
        self.known("tensor", text(block.tensor))?;
        self.known("shape", Some(&block.shape).filter(|shape| !shape.is_empty()))?;
        self.known("dtype", text(block.dtype))?;
        self.entry("born_event", block.born)?;
        self.known("died_event", block.died)?;
        self.time(["born_ns", "born_operation"], Some(block.born))?;
        self.time(["died_ns", "died_operation"], block.died)?;
        self.end_part()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{export::tests::sample, timeline::Origin};

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
