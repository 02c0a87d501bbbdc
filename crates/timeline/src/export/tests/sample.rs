//! A small training step for tests.

use oomph_core::{Bytes, Phase};

use crate::{
    block::Block,
    category::Category,
    names::Name,
    span::{Span, SpanKind},
    timeline::{Clock, Origin, Timeline},
    track::{Track, TrackKind, TrackSpan},
};

/// A timeline without events.
pub(crate) fn empty(origin: Origin) -> Timeline {
    let clock = match origin {
        Origin::Planned => Clock::Operations,
        Origin::Measured => Clock::Nanoseconds,
    };
    let (title, device) = ("two layers · batch 8".into(), "cpu".into());
    Timeline { title, device, ..Timeline::new(origin, clock) }
}

/// The step on one of several devices, which waits for another and has an all-reduce in flight.
pub(crate) fn on_a_device(device: &str) -> Timeline {
    let span = |kind, name, number, start, end| TrackSpan { kind, name, number, start, end };
    let spans = vec![
        span(TrackKind::Idle, "waits for device 0", None, 0, 1_500),
        span(TrackKind::Forward, "forward", Some(0), 1_500, 4_500),
        span(TrackKind::Backward, "backward", Some(0), 4_500, 7_000),
        span(TrackKind::Communication, "gradients", Some(0), 7_000, 8_000),
        span(TrackKind::Step, "step", None, 8_000, 9_000),
    ];
    let transfers = vec![span(TrackKind::Communication, "gradients", Some(0), 6_000, 8_000)];
    Timeline { device: device.into(), track: Track { spans, transfers }, ..step(Origin::Measured) }
}

/// One step: a parameter, an activation, a workspace, a gradient that becomes optimizer state in place.
pub(crate) fn step(origin: Origin) -> Timeline {
    let mut timeline = empty(origin);
    timeline.limit_bytes = Some(Bytes::mib(1));
    let unit = if origin == Origin::Planned { 1 } else { 1_500 };
    timeline.times = (0..7).map(|event| event * unit).collect();
    let mut block = |bytes, category, (born, died), phase, texts: [&str; 3]| {
        let [scope, operation, tensor] = texts.map(|text| timeline.names.of(text));
        let address = 4096 * (1 + timeline.blocks.len() as u64);
        let dtype = timeline.names.of("f32");
        let shape = vec![64, bytes as usize / 256];
        let block = Block { category, died, phase, scope, operation, ..Block::new(address, bytes, born) };
        timeline.blocks.push(Block { tensor, shape, dtype, ..block });
    };
    block(1024, Category::Parameters, (0, None), Phase::Init, ["fc", "", "fc.weight"]);
    block(512, Category::Activations, (1, Some(4)), Phase::Forward, ["fc", "matmul", ""]);
    block(2048, Category::Workspace, (2, Some(3)), Phase::Forward, ["fc", "matmul", ""]);
    block(1024, Category::Gradients, (4, Some(5)), Phase::Backward, ["fc", "matmul", "fc.weight"]);
    block(1024, Category::OptimizerState, (5, None), Phase::Step, ["", "", "fc.weight"]);
    // In place: the same memory under another category.
    timeline.blocks[4].address = timeline.blocks[3].address;
    for (kind, name, start, end) in [
        (SpanKind::Step, "step 1", 1, 7),
        (SpanKind::Phase, "forward", 1, 4),
        (SpanKind::Stage, "fc", 1, 4),
        (SpanKind::Phase, "backward", 4, 5),
        (SpanKind::Phase, "step", 5, 7),
    ] {
        let name: Name = timeline.names.of(name);
        timeline.spans.push(Span { kind, name, start, end });
    }
    timeline
}
