//! The pages in a browser.

use std::{ffi::OsString, fs, path::PathBuf};

use oomph_core::Bytes;
use oomph_test_support::browse;
use oomph_timeline::{
    Category, Origin, SpanKind, Split, Timeline, Track, TrackKind, TrackSpan,
    export::{self, Comparison, ComparisonRow},
};

use crate::{file, hostile, training::Training, written};

fn page(name: &str, timeline: &Timeline, overlay: Option<&Timeline>) -> PathBuf {
    let path = file(name);
    let page = export::Page::new(timeline);
    let page = match overlay {
        Some(plan) => page.with_overlay(plan),
        None => page,
    };
    fs::write(&path, written(|out| export::html(&page, out))).unwrap();
    path
}

/// The timeline of one of several devices. Its track has its phases, with idle spans between them.
fn on_device(index: usize, timeline: &Timeline) -> Timeline {
    let time = |event: u32| timeline.times.get(event as usize).copied().unwrap_or(timeline.end_time());
    let span = |kind, start, end| TrackSpan { kind, name: kind.name(), number: None, start, end };
    let mut track = Track::default();
    for phase in timeline.spans_of(SpanKind::Phase) {
        let name = timeline.names.text(phase.name);
        let Some(kind) = TrackKind::ALL.into_iter().find(|kind| kind.name() == name) else { continue };
        let (start, end) = (time(phase.start), time(phase.end));
        let middle = start + (end - start) / (2 + index as u64);
        track.spans.extend([span(TrackKind::Idle, start, middle), span(kind, middle, end)]);
        track.transfers.push(span(TrackKind::Communication, start, middle));
    }
    Timeline { device: format!("{index} cpu"), track, ..timeline.clone() }
}

fn comparison() -> Comparison {
    let row = |name: &str, state: u64, seconds: f64, loss: f64| {
        let mut planned = Split::default();
        for (category, mib) in [
            (Category::Parameters, 43),
            (Category::Gradients, 43),
            (Category::OptimizerState, 43 * state),
            (Category::Activations, 168),
            (Category::Workspace, 31),
        ] {
            planned += (category, mib << 20);
        }
        ComparisonRow {
            name: name.into(),
            planned: Some(planned),
            measured_peak_bytes: Some(Bytes::mib(289 + 43 * state)),
            state_bytes_per_parameter: Some(state as f64 * 4.0),
            step_seconds: Some(seconds),
            loss: Some(loss),
        }
    };
    let rows = vec![
        row("sgd", 0, 0.39, 1.1042),
        row("sgd, momentum 0.9", 1, 0.41, 0.8127),
        row("lion", 1, 0.43, 0.7960),
        row("adamw", 2, 0.47, 0.7413),
        row("adan", 4, 0.55, 0.7388),
    ];
    Comparison { title: "optimizers · resnet18 · batch 32".into(), rows }
}

#[test]
fn the_pages_work_in_a_browser() {
    let small = Training::small(Origin::Measured).timeline();
    let plan = Training::small(Origin::Planned).timeline();
    let pages = [
        page("overlay.html", &small, Some(&plan)),
        page("planned.html", &plan, None),
        page("hostile.html", &hostile(), None),
        page("large.html", &Training::large(Origin::Measured).timeline(), None),
    ];
    // A timeline without events, and one with a single event.
    let nothing = Timeline { times: Vec::new(), blocks: Vec::new(), spans: Vec::new(), ..small.clone() };
    let moment = Timeline { times: vec![0], spans: Vec::new(), ..small.clone() };
    let bare = [page("nothing.html", &nothing, Some(&nothing)), page("moment.html", &moment, Some(&nothing))];
    let devices = [0, 1, 2].map(|index| on_device(index, &small));
    let several = export::Page::new(&devices[0]).with_overlay(&plan);
    let several = several.and(&devices[1], Some(&plan)).and(&devices[2], None);
    let several_path = file("devices.html");
    fs::write(&several_path, written(|out| export::html(&several, out))).unwrap();
    let chart = file("comparison.html");
    fs::write(&chart, written(|out| export::chart(&comparison(), out))).unwrap();

    let named =
        [("--open", &bare[0]), ("--open", &bare[1]), ("--devices", &several_path), ("--chart", &chart)];
    let named = named.into_iter().flat_map(|(flag, path)| [flag.into(), path.into()]);
    browse("browser_check.py", pages.into_iter().map(OsString::from).chain(named));
}
