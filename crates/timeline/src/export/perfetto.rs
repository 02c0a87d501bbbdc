use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};

use super::columns::time_of;
use crate::timeline::{Clock, Origin, Timeline};

/// Writes a Chrome trace, which Perfetto and `chrome://tracing` open. Each timeline is a process, in order.
///
/// A process has a counter of the bytes in use, a counter by category, and a track each for steps, phases and stages. A
/// measurement may add a track for the work of the device, and one for its transfers.
///
/// Times are microseconds since the start of each timeline. A plan has no time: one operation is drawn as 1 µs, as
/// `otherData` and the label of the process say.
///
/// # Errors
/// Errors of `out`.
pub fn perfetto(timelines: &[&Timeline], out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    out.write_all(b"{\"displayTimeUnit\":\"ms\",\"otherData\":")?;
    serde_json::to_writer(&mut out, &other_data(timelines))?;
    out.write_all(b",\"traceEvents\":[")?;
    let mut trace = Trace { out: &mut out, pid: 0, is_first: true };
    for timeline in timelines {
        trace.pid += 1;
        trace.names(timeline)?;
        trace.spans(timeline)?;
        trace.device(timeline)?;
        trace.counters(timeline)?;
    }
    out.write_all(b"]}\n")?;
    out.flush()
}

const OF_A_PLAN: &str = "a plan has no time: one operation counts as 1 µs";

fn other_data(timelines: &[&Timeline]) -> Value {
    let of = |timeline: &&Timeline| {
        json!({
            "origin": timeline.origin,
            "title": timeline.title,
            "device": timeline.device,
            "time": match timeline.clock {
                Clock::Operations => OF_A_PLAN,
                Clock::Nanoseconds => "time since the start",
            },
            "limit_bytes": timeline.limit_bytes,
            "peak_bytes": timeline.peak().categories.total(),
            "lost_events": timeline.lost_events,
        })
    };
    json!({ "producer": "oomph", "timelines": timelines.iter().map(of).collect::<Vec<_>>() })
}

struct Trace<'a> {
    out: &'a mut dyn Write,
    /// Processes are numbered from 1.
    pid: u32,
    is_first: bool,
}

impl Trace<'_> {
    fn event(&mut self, mut event: Value) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_first, false) {
            self.out.write_all(b",\n")?;
        }
        event["pid"] = self.pid.into();
        serde_json::to_writer(&mut *self.out, &event)?;
        Ok(())
    }

    /// Names a process or a track.
    fn about(&mut self, what: &str, tid: u32, args: Value) -> io::Result<()> {
        self.event(json!({"ph": "M", "name": what, "tid": tid, "args": args}))
    }

    fn names(&mut self, timeline: &Timeline) -> io::Result<()> {
        let (origin, label) = match timeline.origin {
            Origin::Planned => ("planned", OF_A_PLAN),
            Origin::Measured => ("measured", ""),
        };
        let name = format!("{origin} · {} · {}", timeline.device, timeline.title);
        self.about("process_name", 0, json!({ "name": name }))?;
        self.about("process_labels", 0, json!({ "labels": label }))?;
        self.about("process_sort_index", 0, json!({ "sort_index": self.pid }))?;
        for (tid, track) in (1..).zip(["steps", "phases", "stages"]) {
            self.about("thread_name", tid, json!({ "name": track }))?;
        }
        Ok(())
    }

    fn spans(&mut self, timeline: &Timeline) -> io::Result<()> {
        timeline.spans.iter().try_for_each(|span| {
            let (start, end) = (microseconds(timeline, span.start), microseconds(timeline, span.end));
            self.event(json!({
                "ph": "X",
                "name": timeline.names.text(span.name),
                "cat": span.kind,
                // Steps are track 1, phases 2 and stages 3.
                "tid": span.kind as u32 + 1,
                "ts": start,
                "dur": (end - start).max(0.0),
            }))
        })
    }

    /// The work of the device, and its transfers.
    fn device(&mut self, timeline: &Timeline) -> io::Result<()> {
        for (tid, track, spans) in [
            (DEVICE, "what the device does", &timeline.track.spans),
            (TRANSFERS, "under way meanwhile", &timeline.track.transfers),
        ] {
            if spans.is_empty() {
                continue;
            }
            self.about("thread_name", tid, json!({ "name": track }))?;
            for span in spans {
                self.event(json!({
                    "ph": "X",
                    "name": span.to_string(),
                    "cat": span.kind,
                    "tid": tid,
                    "ts": span.start as f64 / 1e3,
                    "dur": (span.end - span.start) as f64 / 1e3,
                }))?;
            }
        }
        Ok(())
    }

    fn counters(&mut self, timeline: &Timeline) -> io::Result<()> {
        let total_name = match timeline.origin {
            Origin::Planned => format!("{} planned", timeline.device),
            Origin::Measured => format!("{} in use", timeline.device),
        };
        let split_name = format!("{total_name} by category");
        let mut before = None;
        for (event, split) in timeline.levels().into_iter().enumerate() {
            if before.replace(split) == Some(split) {
                continue;
            }
            let ts = microseconds(timeline, event as u32);
            let total = json!({ "bytes": split.total() });
            self.event(json!({"ph": "C", "name": total_name, "tid": 0, "ts": ts, "args": total}))?;
            // Viewers stack the series of a counter only if each event has them all.
            self.event(json!({"ph": "C", "name": split_name, "tid": 0, "ts": ts, "args": split}))?;
        }
        Ok(())
    }
}

/// The tracks after those of the spans.
const DEVICE: u32 = 4;
const TRANSFERS: u32 = 5;

fn microseconds(timeline: &Timeline, event: u32) -> f64 {
    let time = time_of(timeline, event);
    match timeline.clock {
        Clock::Operations => time as f64,
        Clock::Nanoseconds => time as f64 / 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::tests::sample;

    fn trace(timelines: &[&Timeline]) -> Value {
        let mut out = Vec::new();
        perfetto(timelines, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    fn of_kind<'a>(trace: &'a Value, ph: &str) -> Vec<&'a Value> {
        trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == ph).collect()
    }

    #[test]
    fn counters_follow_the_categories() {
        let measured = sample::step(Origin::Measured);
        let trace = trace(&[&measured]);
        let split = of_kind(&trace, "C").into_iter().filter(|it| it["name"] == "cpu in use by category");
        let highest = split.max_by_key(|it| it["args"]["workspace"].as_u64()).unwrap();
        assert_eq!((&highest["ts"], &highest["args"]["activations"]), (&3.0.into(), &512.into()));
        let totals = of_kind(&trace, "C").into_iter().filter(|it| it["name"] == "cpu in use");
        assert_eq!(totals.filter_map(|it| it["args"]["bytes"].as_u64()).max(), Some(3584));
    }

    #[test]
    fn steps_phases_and_stages_are_slices() {
        let trace = trace(&[&sample::step(Origin::Measured)]);
        let slices = of_kind(&trace, "X");
        assert_eq!(slices.len(), 5);
        let forward = slices.iter().find(|it| it["name"] == "forward").unwrap();
        assert_eq!((&forward["ts"], &forward["dur"], &forward["tid"]), (&1.5.into(), &4.5.into(), &2.into()));
    }

    #[test]
    fn what_a_device_did_is_a_track_of_its_process() {
        let timeline = sample::on_a_device("1 cpu");
        let trace = trace(&[&sample::step(Origin::Planned), &timeline]);
        let slices = of_kind(&trace, "X").into_iter().filter(|it| it["tid"] == 4);
        let slices: Vec<_> = slices.map(|it| (&it["pid"], &it["name"], &it["ts"], &it["dur"])).collect();
        assert_eq!(slices.len(), timeline.track.spans.len());
        assert_eq!(slices[1], (&2.into(), &"forward 0".into(), &1.5.into(), &3.0.into()));
        assert_eq!(of_kind(&trace, "X").iter().filter(|it| it["tid"] == 5).count(), 1);
    }

    #[test]
    fn a_plan_and_a_measurement_are_two_processes_and_the_unit_is_said() {
        let (planned, measured) = (sample::step(Origin::Planned), sample::step(Origin::Measured));
        let trace = trace(&[&planned, &measured]);
        let names: Vec<_> = of_kind(&trace, "M")
            .into_iter()
            .filter(|it| it["name"] == "process_name")
            .map(|it| &it["pid"])
            .collect();
        assert_eq!(names, [&json!(1), &json!(2)]);
        assert!(trace["otherData"]["timelines"][0]["time"].as_str().unwrap().contains("1 µs"));
        assert_eq!(of_kind(&trace, "X")[0]["dur"], 6.0);
    }
}
