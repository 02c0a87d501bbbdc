//! The exported files: of timelines as large as real ones, with hostile names, and opened by other programs. Without such
//! a program its test reports a skip.

mod browser;
mod pytorch;
mod training;

use std::{fs, path::PathBuf};

use oomph_timeline::{Category, Origin, SpanKind, Timeline, export};
use serde_json::Value;
use training::Training;

/// The path of an exported file for other programs.
fn file(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("exports");
    fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// Names that try to become markup, code or structure.
fn hostile() -> Timeline {
    let mut timeline = Training::small(Origin::Measured).timeline();
    timeline.title = "</title></script><script>window.owned=1</script>".into();
    timeline.device = "<img src=x onerror=window.owned=1>".into();
    for (block, name) in timeline.blocks.iter_mut().zip([
        "</script><b>",
        "<!--<script>",
        "\"]}],\n",
        "\u{2028}\u{0}\u{7f}",
        "{{data}}",
        "'><svg/onload=window.owned=1>",
        "重み 🦀",
    ]) {
        (block.tensor, block.scope) = (timeline.names.of(name), timeline.names.of(name));
    }
    let name = timeline.names.of("</script><script>window.owned=1</script>");
    timeline.spans.iter_mut().rfind(|span| span.kind == SpanKind::Stage).unwrap().name = name;
    timeline
}

fn written(write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    out
}

#[test]
fn a_large_timeline_is_as_large_as_it_says() {
    let timeline = Training::large(Origin::Measured).timeline();
    assert!(timeline.times.len() >= 90_000, "{} events", timeline.times.len());
    assert!(timeline.blocks.len() >= 45_000, "{} blocks", timeline.blocks.len());
    assert!(timeline.blocks.is_sorted_by_key(|block| block.born));
}

#[test]
fn json_lines_sum_up_to_the_peak() {
    for timeline in [Training::small(Origin::Planned).timeline(), hostile()] {
        let text = String::from_utf8(written(|out| export::json_lines(&[&timeline], out))).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let head = &lines[0];
        assert_eq!(lines.len(), 1 + timeline.spans.len() + timeline.blocks.len());
        let peak = head["peak_event"].as_u64().unwrap();
        for category in Category::ALL {
            let at_peak = lines.iter().filter(|line| line["category"] == category.key()).filter(|line| {
                let is_dead = line["died_event"].as_u64().is_some_and(|died| died <= peak);
                line["born_event"].as_u64().unwrap() <= peak && !is_dead
            });
            let sum: u64 = at_peak.map(|line| line["bytes"].as_u64().unwrap()).sum();
            assert_eq!(head["peak_categories_bytes"][category.key()], sum, "{category}");
        }
    }
}

#[test]
fn a_trace_has_the_peak_and_every_span() {
    let timelines = [Training::small(Origin::Planned).timeline(), hostile()];
    let bytes = written(|out| export::perfetto(&[&timelines[0], &timelines[1]], out));
    let trace: Value = serde_json::from_slice(&bytes).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    for (pid, timeline) in (1..).zip(&timelines) {
        let of = |ph| events.iter().filter(move |event| event["pid"] == pid && event["ph"] == ph);
        let totals = of("C").filter_map(|event| event["args"]["bytes"].as_u64());
        assert_eq!(totals.max(), Some(timeline.peak().categories.total().get()));
        let by_category = of("C").filter(|event| event["args"].get("parameters").is_some());
        let sums = by_category
            .map(|event| event["args"].as_object().unwrap().values().filter_map(Value::as_u64).sum());
        assert_eq!(sums.max(), Some(timeline.peak().categories.total().get()));
        assert_eq!(of("X").count(), timeline.spans.len());
        assert!(of("X").all(|event| event["ts"].as_f64().is_some() && event["dur"].as_f64() >= Some(0.0)));
    }
}

/// The JSON data of the page.
fn data_of(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_data_of_a_page_is_the_timeline() {
    let timeline = hostile();
    let plan = Training::small(Origin::Planned).timeline();
    let page = export::Page::new(&timeline).with_overlay(&plan);
    let text = String::from_utf8(written(|out| export::html(&page, out))).unwrap();
    let data = data_of(&text);
    let blocks = &data["devices"][0]["timeline"]["blocks"];
    for (index, category) in Category::ALL.into_iter().enumerate() {
        let ours: u64 =
            timeline.blocks.iter().filter(|block| block.category == category).map(|block| block.bytes).sum();
        let pairs = blocks["bytes"].as_array().unwrap().iter().zip(blocks["category"].as_array().unwrap());
        let theirs: u64 =
            pairs.filter(|(_, it)| **it == index).map(|(bytes, _)| bytes.as_u64().unwrap()).sum();
        assert_eq!(ours, theirs, "{category}");
    }
    assert_eq!(data["devices"][0]["timeline"]["peak_event"], timeline.peak().event);
    let names = data["devices"][0]["timeline"]["names"].as_array().unwrap();
    assert!(names.iter().any(|name| name == "</script><b>"));
    let placed = data["devices"][0]["overlay"]["times"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|time| time.is_number())
        .count();
    assert!(placed + 1 >= plan.times.len(), "all but the start lies within a matched step");
}

#[test]
fn a_page_of_a_hundred_thousand_events_is_compact() {
    let timeline = Training::large(Origin::Measured).timeline();
    let page = written(|out| export::html(&export::Page::new(&timeline), out));
    assert!(page.len() < 4 << 20, "{} bytes", page.len());
}

#[test]
fn a_picture_stays_small_and_names_stay_text() {
    let timelines = [
        Training::small(Origin::Planned).timeline(),
        Training::large(Origin::Measured).timeline(),
        hostile(),
    ];
    for timeline in timelines {
        let path = file(&format!("{}_events.svg", timeline.times.len()));
        let picture = written(|out| export::svg(&timeline, out));
        fs::write(path, &picture).unwrap();
        assert!(picture.len() < 100 << 10, "{} bytes", picture.len());
        let text = String::from_utf8(picture).unwrap();
        assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
        let peak = timeline.peak().categories.total().to_string();
        assert!(text.contains(&peak), "{peak}");
    }
}

#[test]
fn spans_nest_in_what_is_made_up() {
    let timeline = Training::small(Origin::Measured).timeline();
    assert_eq!(timeline.spans_of(SpanKind::Step).count(), 3);
    assert_eq!(timeline.spans_of(SpanKind::Phase).count(), 12);
}
