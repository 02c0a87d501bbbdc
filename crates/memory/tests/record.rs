//! The recording of allocations, in a program with the meter.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use oomph_core::{Bytes, Phase};
use oomph_memory::{
    Account, charge, compute_threads, read,
    record::{self, Change, Note, Notes, Recording, StepKind},
};
use oomph_timeline::{Category, SpanKind, Timeline};

oomph_memory::install_meter!();

/// One test: the recording is global to the process, and tests of a binary run concurrently.
#[test]
fn a_recording_has_every_allocation_of_the_device() {
    nothing_is_recorded_before_the_start();
    events_say_what_where_and_when();
    growing_is_a_free_and_an_allocation();
    the_ring_keeps_the_newest_and_the_level_before_them();
    threads_record_at_once();
    a_dump_is_true_while_others_allocate();
    notes_name_what_was_there_before();
    what_a_lost_event_made_is_not_guessed();
    a_step_becomes_a_timeline();
    // Last, since these checks allocate small blocks of their own.
    compute_threads_are_where_the_run_is();
}

/// An allocation that the compiler cannot remove.
fn made_of(size: usize) -> Vec<u8> {
    std::hint::black_box(vec![0u8; size])
}

fn device<R>(work: impl FnOnce() -> R) -> R {
    charge(Account::Device, work)
}

/// Bytes in use after the last event.
fn level(recording: &Recording) -> i128 {
    let change = |change| match change {
        Change::Alloc { bytes, .. } => i128::from(bytes),
        Change::Free { bytes, .. } => -i128::from(bytes),
        Change::Step { .. } => 0,
    };
    let changes = recording.events.iter().map(|event| change(event.change));
    i128::from(recording.in_use_bytes.get()) + changes.sum::<i128>()
}

/// A dump whose bytes in use, and those of its timeline, equal the meter's.
fn dump() -> Recording {
    let in_use = read().in_use_bytes;
    let recording = record::dump();
    assert_eq!(level(&recording), i128::from(in_use.get()));
    check(&recording, &recording.timeline(&Notes::default()));
    recording
}

fn check(recording: &Recording, timeline: &Timeline) {
    assert_eq!(timeline.times.len(), recording.events.len() + 1);
    assert!(timeline.times.is_sorted());
    let last = timeline.levels().last().map(|split| i128::from(split.total().get()));
    assert_eq!(last, Some(level(recording)));
}

fn nothing_is_recorded_before_the_start() {
    assert!(!record::is_on());
    device(|| drop(made_of(100)));
    record::mark_step(1, StepKind::Train);
    assert_eq!((record::next_event(), record::dump()), (0, Recording::default()));
}

fn events_say_what_where_and_when() {
    let host = read().host_bytes;
    record::start(100_000);
    // The ring is host memory, 40 bytes per event.
    assert!(read().host_bytes.get() - host.get() >= 40 * 100_000);
    assert!(record::is_on());
    let block = {
        let _phase = oomph_core::phase(Phase::Step);
        let _scope = oomph_core::scope("optimizer");
        record::mark_step(7, StepKind::Train);
        device(|| made_of(1000))
    };
    let address = block.as_ptr() as u64;
    // A thread of another account frees it. Host allocations are not recorded.
    std::thread::spawn(move || drop(block)).join().unwrap();
    drop(made_of(500));
    let recording = dump();
    let changes: Vec<_> = recording.events.iter().map(|event| event.change).collect();
    let expected = [
        Change::Step { number: 7, kind: StepKind::Train },
        Change::Alloc { address, bytes: 1000 },
        Change::Free { address, bytes: 1000 },
    ];
    assert_eq!(changes, expected);
    assert_eq!(recording.events[1].point.scope(), "optimizer");
    assert_eq!(recording.events[1].point.phase(), Phase::Step);
    assert_eq!(recording.events[2].point.phase(), Phase::Idle);
    assert!(recording.events.iter().all(|event| event.nanoseconds < 10_000_000_000));
    assert_eq!((recording.first_event, recording.lost_events), (0, 0));
    assert!(recording.started.is_some());
    record::stop();
    // Events after the end are not in it. The bytes in use are those at the end.
    let late = device(|| made_of(4000));
    assert_eq!(record::dump(), recording);
    drop(late);
}

fn growing_is_a_free_and_an_allocation() {
    record::start(100);
    let next = record::next_event();
    let grown = device(|| {
        let mut grown: Vec<u8> = std::hint::black_box(Vec::with_capacity(1000));
        grown.reserve_exact(100_000);
        grown
    });
    let recording = dump();
    assert_eq!((recording.first_event, record::next_event()), (next, next + 3));
    assert!(matches!(recording.events[1].change, Change::Free { bytes: 1000, .. }));
    let address = grown.as_ptr() as u64;
    assert_eq!(recording.events[2].change, Change::Alloc { address, bytes: 100_000 });
    drop(grown);
    record::stop();
}

fn the_ring_keeps_the_newest_and_the_level_before_them() {
    record::start(100);
    let first = record::next_event();
    let kept: Vec<Vec<u8>> = (0..300).map(|size| device(|| made_of(200 + size))).collect();
    let recording = dump();
    // A power of two.
    assert_eq!(recording.events.len(), 128);
    assert_eq!((recording.first_event, recording.lost_events), (first + 172, 172));
    assert_eq!(record::oldest_event(), first + 172);
    // These blocks were allocated by events that are lost.
    drop(kept);
    let recording = dump();
    let timeline = recording.timeline(&Notes::default());
    assert_eq!(timeline.lost_events, 172 + 300);
    let unseen = timeline.blocks.iter().filter(|block| block.born == 0 && block.died.is_some());
    assert_eq!(unseen.count(), 128);
    record::stop();
}

fn threads_record_at_once() {
    record::start(100_000);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                device(|| {
                    for turn in 0..5000 {
                        drop(made_of(200 + thread * 100 + turn % 100));
                    }
                });
            });
        }
    });
    let recording = dump();
    assert_eq!((recording.events.len(), recording.lost_events), (40_000, 0));
    // In the order of events no live address is allocated again.
    let mut alive = HashMap::new();
    for event in &recording.events {
        match event.change {
            Change::Alloc { address, bytes } => assert_eq!(alive.insert(address, bytes), None),
            Change::Free { address, bytes } => assert_eq!(alive.remove(&address), Some(bytes)),
            Change::Step { .. } => unreachable!(),
        }
    }
    assert!(alive.is_empty());
    record::stop();
}

fn compute_threads_are_where_the_run_is() {
    compute_threads(None).unwrap();
    rayon::broadcast(|_| ());
    record::start(100);
    let _phase = oomph_core::phase(Phase::Forward);
    let _scope = oomph_core::scope("conv");
    let block = std::sync::Mutex::new(Vec::new());
    rayon::scope(|scope| scope.spawn(|_| *block.lock().unwrap() = made_of(123_456)));
    let recording = record::dump();
    let made = recording.events.iter().find(|it| matches!(it.change, Change::Alloc { bytes: 123_456, .. }));
    assert_eq!(made.map(|event| event.point), Some(oomph_core::current_point()));
    record::stop();
}

fn a_dump_is_true_while_others_allocate() {
    record::start(4096);
    let before = i128::from(read().in_use_bytes.get());
    let is_over = AtomicBool::new(false);
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    std::thread::scope(|scope| {
        // Also if a check fails.
        let _ends = Ends(&is_over);
        scope.spawn(|| {
            device(|| {
                while !is_over.load(Relaxed) {
                    let one = made_of(1000);
                    let two = made_of(30_000);
                    drop(one);
                    drop(two);
                }
            });
        });
        let first = record::next_event();
        let is_wrapped = || record::next_event() > first + 2 * 4096;
        let mut dumps = 0;
        while dumps < 200 || !is_wrapped() {
            dumps += 1;
            let recording = record::dump();
            check(&recording, &recording.timeline(&Notes::default()));
            // The other thread's bytes follow from its last event. An intermediate level would differ.
            let holds = match recording.events.last().map(|event| event.change) {
                // Not begun, or all overwritten while this thread was descheduled.
                None => continue,
                Some(Change::Free { bytes: 30_000, .. }) => 0,
                Some(Change::Alloc { bytes: 1000, .. }) => 1000,
                Some(Change::Alloc { bytes: 30_000, .. }) => 31_000,
                Some(Change::Free { bytes: 1000, .. }) => 30_000,
                Some(other) => panic!("{other:?}"),
            };
            assert_eq!(level(&recording) - before, holds);
        }
    });
    record::stop();
}

fn note(block: &[u8], category: Category, tensor: &str) -> Note {
    Note {
        next_event: record::next_event(),
        address: block.as_ptr() as u64,
        bytes: Some(Bytes::new(block.len() as u64)),
        category,
        tensor: tensor.into(),
        shape: vec![block.len()],
        dtype: "u8".into(),
    }
}

/// Categories and sizes of a timeline's tensors that have a name or existed before the recording.
fn tensors(timeline: &Timeline) -> Vec<(&str, Category, u64, bool)> {
    let blocks = timeline.blocks.iter().filter(|block| block.born == 0 || block.tensor.number() > 0);
    let seen = blocks.map(|block| {
        let known = if block.tensor.number() > 0 { block.tensor } else { block.operation };
        (timeline.names.text(known), block.category, block.bytes, block.died.is_some())
    });
    let mut seen: Vec<_> = seen.collect();
    seen.sort_by_key(|it| it.2);
    seen
}

fn notes_name_what_was_there_before() {
    let base = read().in_use_bytes.get();
    let (weight, momentum, freed, batch) =
        device(|| (made_of(100), made_of(200), made_of(300), made_of(400)));
    let unnamed = device(|| made_of(5000));
    record::start(100);
    let at_start = note(&weight, Category::Parameters, "weight");
    let made = device(|| made_of(600));
    let held = vec![
        at_start,
        note(&momentum, Category::OptimizerState, "momentum"),
        note(&momentum, Category::OptimizerState, "momentum"),
        // For all the meter knows, the tensor is in host memory.
        note(&batch, Category::Inputs, "batch"),
        note(&made, Category::Gradients, "gradient"),
    ];
    drop(freed);
    let recording = dump();
    let timeline = recording.timeline(&Notes { tensors: held, ..Notes::default() });
    check(&recording, &timeline);
    let expected = [
        ("weight", Category::Parameters, 100, false),
        ("momentum", Category::OptimizerState, 200, false),
        ("", Category::Other, 300, true),
        ("gradient", Category::Gradients, 600, false),
        ("before the recording", Category::Other, base + 5400, false),
    ];
    assert_eq!(tensors(&timeline), expected);
    drop((weight, momentum, batch, unnamed, made));
    record::stop();
}

fn what_a_lost_event_made_is_not_guessed() {
    record::start(16);
    let (gone, weight) = device(|| (made_of(100), made_of(200)));
    let held = vec![note(&gone, Category::Gradients, "gone"), note(&weight, Category::Parameters, "weight")];
    drop(gone);
    device(|| (0..30).for_each(|_| drop(made_of(64))));
    drop(weight);
    let recording = dump();
    let timeline = recording.timeline(&Notes { tensors: held, ..Notes::default() });
    // The free of `weight` shows that it existed before.
    let seen = tensors(&timeline);
    assert!(seen.contains(&("weight", Category::Parameters, 200, true)), "{seen:?}");
    assert!(!seen.iter().any(|(tensor, ..)| *tensor == "gone"), "{seen:?}");
    record::stop();
}

fn a_step_becomes_a_timeline() {
    record::start(1000);
    let phase = |phase| oomph_core::phase(phase);
    let mut held = Vec::new();
    for step in 1..=2 {
        record::mark_step(step, StepKind::Train);
        let kept = {
            let _forward = phase(Phase::Forward);
            let _stage = oomph_core::scope("stem");
            device(|| drop(made_of(10)));
            device(|| made_of(1000))
        };
        let gradient = {
            let _backward = phase(Phase::Backward);
            let gradient = device(|| made_of(300));
            drop(kept);
            gradient
        };
        held.push(note(&gradient, Category::Gradients, "stem.weight"));
        let _step = phase(Phase::Step);
        drop(gradient);
    }
    let recording = dump();
    record::stop();
    let notes =
        Notes { device: "cpu".into(), stages: vec!["stem".into()], tensors: held, ..Notes::default() };
    let timeline = recording.timeline(&notes);
    let spans =
        |kind| -> Vec<&str> { timeline.spans_of(kind).map(|span| timeline.names.text(span.name)).collect() };
    assert_eq!(spans(SpanKind::Step), ["step 1", "step 2"]);
    assert_eq!(spans(SpanKind::Phase), ["forward", "backward", "step"].repeat(2));
    assert_eq!(spans(SpanKind::Stage), ["stem"; 4]);
    let peak = timeline.peak();
    assert_eq!(peak.categories.of(Category::Activations).get(), 1000);
    assert_eq!(peak.categories.of(Category::Gradients).get(), 300);
    let workspace: Vec<u64> = timeline
        .blocks
        .iter()
        .filter_map(|block| (block.category == Category::Workspace).then_some(block.bytes))
        .collect();
    assert_eq!(workspace, [10, 10]);
    assert_eq!(timeline.blocks.iter().filter(|block| timeline.names.text(block.scope) == "stem").count(), 6);
}
