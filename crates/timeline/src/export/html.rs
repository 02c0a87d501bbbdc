use std::{
    borrow::Cow,
    io::{self, BufWriter, Write},
};

use oomph_core::Phase;
use serde::Serialize;

use super::{
    align::Alignment,
    columns::{Columns, end_time},
    document::{FORMAT_SCRIPT, STYLE, Text, fill, script_json, unknown_part},
    header::header,
    page::{Page, PageDevice},
};
use crate::{category::Category, timeline::Timeline, track::TrackKind};

const TEMPLATE: &str = include_str!("assets/page.html");
/// In this order: each script uses those before it.
const SCRIPTS: [&str; 9] = [
    FORMAT_SCRIPT,
    include_str!("assets/timeline.js"),
    include_str!("assets/view.js"),
    include_str!("assets/paint.js"),
    include_str!("assets/details.js"),
    include_str!("assets/page.js"),
    include_str!("assets/draw.js"),
    include_str!("assets/tracks.js"),
    include_str!("assets/input.js"),
];

/// The data of the scripts.
#[derive(Serialize)]
struct Data<'a> {
    categories: [&'static str; Category::ALL.len()],
    phases: [&'static str; Phase::ALL.len()],
    track_kinds: [&'static str; TrackKind::ALL.len()],
    devices: Vec<Device<'a>>,
}

#[derive(Serialize)]
struct Device<'a> {
    timeline: Columns<'a>,
    overlay: Option<Overlay<'a>>,
}

#[derive(Serialize)]
struct Overlay<'a> {
    /// The time of each event of the overlay on the clock of the timeline.
    times: Vec<Option<f64>>,
    columns: Columns<'a>,
}

/// Writes one HTML file that needs neither network nor other files.
///
/// The page shows the timeline as areas by category, or block by block, with zoom, hover and search. It stays fluent
/// with 100,000 events. If the devices' tracks are known, they are drawn above the chart, on the same axis. With several
/// devices, the chart shows the chosen one. The content policy forbids the page to load anything.
///
/// ```
/// # use oomph_timeline::{Clock, Origin, Timeline, export};
/// # let timeline = Timeline { times: vec![0], ..Timeline::new(Origin::Planned, Clock::Operations) };
/// let mut page = Vec::new();
/// export::html(&export::Page::new(&timeline), &mut page)?;
/// assert!(page.starts_with(b"<!doctype html>"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Errors of `out`.
pub fn html(page: &Page<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let described: Vec<_> = page.devices.iter().map(described).collect();
    fill(TEMPLATE, &mut out, |name, out| match name {
        "title" => write!(out, "{}", Text(&page.devices[0].timeline.title)),
        "style" => out.write_all(STYLE.as_bytes()),
        "header" => header(page, out),
        "data" => script_json(&data(page, &described), out),
        "script" => SCRIPTS.iter().try_for_each(|script| out.write_all(script.as_bytes())),
        other => Err(unknown_part(other)),
    })?;
    out.flush()
}

/// The timeline of a device, with what its plan knows of its blocks.
fn described<'a>(shown: &PageDevice<'a>) -> Cow<'a, Timeline> {
    match shown.overlay {
        Some(plan) => Cow::Owned(shown.timeline.described_by(plan)),
        None => Cow::Borrowed(shown.timeline),
    }
}

/// The data of a page whose timelines were `described`.
fn data<'a>(page: &Page<'a>, described: &'a [Cow<'a, Timeline>]) -> Data<'a> {
    let end = page.devices.iter().map(|device| end_time(device.timeline)).max().unwrap_or(0);
    Data {
        categories: Category::ALL.map(Category::name),
        phases: Phase::ALL.map(Phase::name),
        track_kinds: TrackKind::ALL.map(TrackKind::name),
        devices: page.devices.iter().zip(described).map(|(shown, it)| device(shown, it, end)).collect(),
    }
}

fn device<'a>(shown: &PageDevice<'a>, described: &'a Timeline, end: u64) -> Device<'a> {
    let overlay = shown.overlay.map(|plan| {
        let alignment = Alignment::new(plan, shown.timeline);
        // A thousandth of an operation or nanosecond is finer than any screen resolves.
        let rounded = |time: f64| (time * 1e3).round() / 1e3;
        let times = plan.times.iter().map(|&time| alignment.time(time).map(rounded)).collect();
        Overlay { times, columns: Columns::new(plan) }
    });
    Device { timeline: Columns::until(described, end), overlay }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{export::tests::sample, timeline::Origin};

    fn page(timeline: &Timeline, overlay: Option<&Timeline>) -> String {
        let mut out = Vec::new();
        let page = Page::new(timeline);
        let page = match overlay {
            Some(plan) => page.with_overlay(plan),
            None => page,
        };
        html(&page, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn several_devices_share_a_page_and_its_axis() {
        let (one, mut other) = (sample::on_a_device("0 cpu"), sample::on_a_device("1 cpu"));
        other.times = other.times.iter().map(|time| time * 2).collect();
        let planned = sample::step(Origin::Planned);
        let page = Page::new(&one).with_overlay(&planned).and(&other, Some(&planned));
        let mut out = Vec::new();
        html(&page, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (_, rest) = text.split_once("id=\"data\">").unwrap();
        let data: serde_json::Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
        let devices = data["devices"].as_array().unwrap();
        assert_eq!((devices.len(), &devices[1]["timeline"]["device"]), (2, &"1 cpu".into()));
        assert_eq!(devices[0]["timeline"]["end"], devices[1]["timeline"]["end"]);
        let track = &devices[1]["timeline"]["track"];
        assert_eq!(track["names"][track["spans"][1][1].as_u64().unwrap() as usize], "forward 0");
        assert_eq!(track["spans"][0], serde_json::json!([TrackKind::Idle as u8, 0, 0, 1_500]));
        // The table has the shares of each: 1 of 7.5 µs (the step lasts from 1.5 to 9 µs) was communication.
        assert!(text.contains("0 cpu") && text.contains("1 cpu") && text.contains("<td>13.3 %</td>"));
    }

    #[test]
    fn the_page_loads_nothing() {
        let (measured, planned) = (sample::step(Origin::Measured), sample::step(Origin::Planned));
        let text = page(&measured, Some(&planned));
        assert!(text.contains("default-src 'none'"));
        for outside in ["http://", "https://", "@import", "url(", " src=", "<link", "fetch(", "{{"] {
            assert!(!text.contains(outside), "{outside}");
        }
    }

    #[test]
    fn scripts_and_styles_cannot_end_their_element() {
        for text in SCRIPTS.iter().chain([&STYLE]) {
            assert!(!text.contains("</"), "would end its element");
            assert!(!text.contains("innerHTML"), "text of the data is set as text");
        }
    }

    #[test]
    fn hostile_names_stay_text() {
        let mut timeline = sample::step(Origin::Planned);
        timeline.title = "</title><script>alert(1)</script>".into();
        timeline.device = "\"><img onerror=alert(1)>{{data}}".into();
        timeline.blocks[0].tensor = timeline.names.of("</script><b>");
        let plain = page(&sample::step(Origin::Planned), None);
        let hostile = page(&timeline, None);
        for tag in ["<script", "</script", "<b>", "<img", "</title"] {
            assert_eq!(hostile.matches(tag).count(), plain.matches(tag).count(), "{tag}");
        }
        assert!(hostile.contains("\\u003c/script>\\u003cb>"));
    }

    #[test]
    fn an_empty_timeline_has_a_page_too() {
        assert!(
            page(&sample::empty(Origin::Measured), Some(&sample::empty(Origin::Planned))).contains("</html>")
        );
    }
}
