//! Several CPU devices in one program with the meter, each with its own counters.

use std::{
    num::NonZeroUsize,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use oomph_core::{Bytes, Phase, current_device, on_device, phase, scope, shared_point_of};
use oomph_memory::{
    Account, ComputePool, charge, compute_threads, crossing, limit, on_compute_threads, read, read_device,
    record::{self, Change, Note, Notes, Recording, StepKind},
    restart_peak, running_threads, set_device_limit, set_limit, take_crossing,
};
use oomph_timeline::{Category, SpanKind};

oomph_memory::install_meter!();

const THREADS: usize = 2;

/// One test: counters are global to the process, and tests of a binary run concurrently.
#[test]
fn each_device_is_counted_apart() {
    let pools = [1, 2].map(pool);
    figures_are_of_the_device_that_allocated(&pools);
    what_another_device_frees_is_subtracted_where_it_was_allocated(&pools);
    each_device_has_its_own_peak_and_limit(&pools);
    work_is_done_by_the_threads_of_its_device(&pools);
    work_begins_where_it_was_asked_for(&pools);
    each_device_is_where_its_own_run_is(&pools);
    events_are_split_by_device(&pools);
    notes_and_numbers_find_the_events_of_a_device(&pools);
    all_recordings_end_at_one_moment(&pools);
    the_only_device_has_all_figures_of_a_thread_that_says_nothing();
}

fn pool(device: usize) -> ComputePool {
    ComputePool::new(device, NonZeroUsize::new(THREADS).unwrap()).unwrap()
}

/// An allocation that the compiler cannot remove.
fn made_of(size: usize) -> Vec<u8> {
    std::hint::black_box(vec![0u8; size])
}

fn in_use() -> [u64; 3] {
    [0, 1, 2].map(|device| read_device(device).in_use_bytes.get())
}

/// Growth of the bytes in use since `before`.
fn more(before: [u64; 3]) -> [u64; 3] {
    let now = in_use();
    [0, 1, 2].map(|device| now[device] - before[device])
}

fn figures_are_of_the_device_that_allocated(pools: &[ComputePool; 2]) {
    let before = in_use();
    let allocations = [0, 1, 2].map(|device| read_device(device).allocations);
    let one = pools[0].install(|| made_of(1 << 20));
    let two = pools[1].install(|| (made_of(2 << 20), made_of(3 << 20)));
    assert_eq!(more(before), [0, 1 << 20, 5 << 20]);
    let counts = [0, 1, 2].map(|device| read_device(device).allocations - allocations[device]);
    assert_eq!(counts, [0, 1, 2]);
    // A thread reads its device's counter. The host counter is shared with other threads.
    let read_in_use = || read().in_use_bytes.get();
    assert_eq!([read_in_use(), on_device(1, read_in_use), pools[1].install(read_in_use)], in_use());
    let host = read().host_bytes.get();
    let data = pools[0].install(|| charge(Account::Host, || made_of(4 << 20)));
    assert!(read_device(2).host_bytes.get() >= host + (3 << 20));
    assert_eq!(more(before), [0, 1 << 20, 5 << 20]);
    drop((one, two, data));
    assert_eq!(more(before), [0, 0, 0]);
}

fn what_another_device_frees_is_subtracted_where_it_was_allocated(pools: &[ComputePool; 2]) {
    let before = in_use();
    let mut grows = pools[0].install(|| made_of(1 << 20));
    let (freed_by_host, freed_by_other) = pools[0].install(|| (made_of(100_000), made_of(200_000)));
    let sent = pools[1].install(move || {
        drop(freed_by_other);
        // A block of device 1 stays its block when another thread reallocates it.
        grows.reserve_exact(3 << 20);
        grows
    });
    drop(freed_by_host);
    assert_eq!(more(before), [0, sent.capacity() as u64, 0]);
    charge(Account::Device, || drop(sent));
    assert_eq!(more(before), [0, 0, 0]);
}

fn each_device_has_its_own_peak_and_limit(pools: &[ComputePool; 2]) {
    let peak = |device| read_device(device).peak_in_use_bytes.get();
    (0..3).for_each(|device| on_device(device, restart_peak));
    let levels = in_use();
    pools[0].install(|| drop(made_of(7 << 20)));
    assert_eq!([0, 1, 2].map(|device| peak(device) - levels[device]), [0, 7 << 20, 0]);
    on_device(1, restart_peak);
    assert_eq!(peak(1), levels[1]);

    let bytes = |device: usize, more: u64| Bytes::new(levels[device] + more);
    set_limit(Some(bytes(0, 1 << 20)));
    set_device_limit(1, Some(bytes(1, 5000)));
    assert_eq!(limit(), Some(bytes(0, 1 << 20)));
    assert_eq!((on_device(1, limit), on_device(2, limit)), (Some(bytes(1, 5000)), limit()));
    let point = {
        let _phase = phase(Phase::Forward);
        let _scope = scope("crosses");
        pools[0].install(|| {
            drop(made_of(6000));
            oomph_core::current_point()
        })
    };
    pools[1].install(|| drop(made_of(6000)));
    assert_eq!((crossing(), on_device(2, crossing)), (None, None));
    let crossed = pools[0].install(take_crossing).unwrap();
    assert_eq!((crossed.device, crossed.requested_bytes.get(), crossed.point), (1, 6000, point));
    assert_eq!((crossed.in_use_bytes, crossed.limit_bytes), (bytes(1, 6000), bytes(1, 5000)));
    assert_eq!(on_device(1, take_crossing), None);
    // A new limit for all devices clears the crossing of each.
    pools[0].install(|| drop(made_of(6000)));
    set_limit(None);
    assert_eq!(on_device(1, || (limit(), crossing())), (None, None));
}

fn work_is_done_by_the_threads_of_its_device(pools: &[ComputePool; 2]) {
    assert_eq!(compute_threads(NonZeroUsize::new(3)).unwrap(), 3);
    let counted = AtomicUsize::new(0);
    let count = || _ = counted.fetch_add(1, Relaxed);
    for pool in pools {
        assert_eq!(pool.threads(), THREADS);
        let names = Mutex::new(Vec::new());
        pool.on_every_thread(|| {
            assert_eq!(current_device(), pool.device());
            assert_eq!(oomph_core::charged_account(), Account::Device);
            names.lock().unwrap().push(std::thread::current().name().unwrap().to_owned());
        });
        let mut names = names.into_inner().unwrap();
        names.sort();
        assert_eq!(names, [0, 1].map(|index| format!("oomph-device-{}-{index}", pool.device())));
        assert_eq!(pool.install(running_threads), THREADS);
        pool.install(|| on_compute_threads(count));
        let asked = |count| pool.install(|| compute_threads(NonZeroUsize::new(count)));
        assert_eq!(asked(THREADS).unwrap(), THREADS);
        assert!(asked(THREADS + 1).is_err());
    }
    assert_eq!(counted.swap(0, Relaxed), 2 * THREADS);
    on_compute_threads(count);
    assert_eq!((running_threads(), counted.into_inner()), (3, 3));
    rayon::broadcast(|_| assert_eq!(current_device(), 0));
}

fn work_begins_where_it_was_asked_for(pools: &[ComputePool; 2]) {
    let _phase = phase(Phase::Eval);
    let _scope = scope("asks");
    let asked = oomph_core::current_point();
    let inner = pools[0].install(|| {
        let at_first = oomph_core::current_point();
        let _scope = scope("inner");
        // From one device to another, and back to the same.
        let other = pools[1].install(|| pools[0].install(|| oomph_core::current_point().scope()));
        (at_first, other)
    });
    assert_eq!(inner, (asked, "asks.inner".to_owned()));
    for device in [1, 2] {
        assert_eq!(shared_point_of(device), oomph_core::ExecutionPoint::default());
    }
    // Also if the closure panics.
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pools[0].install(|| std::panic::resume_unwind(Box::new("on purpose")))
    }));
    assert!(failed.is_err());
    pools[0]
        .on_every_thread(|| assert_eq!(oomph_core::current_point(), oomph_core::ExecutionPoint::default()));
    assert_eq!(oomph_core::current_point(), asked);
}

/// The phases and scopes of the allocations of a size.
fn places_of(recording: &Recording, size: u64) -> Vec<(Phase, String)> {
    let events = recording.events.iter();
    let made = events.filter(|event| matches!(event.change, Change::Alloc { bytes, .. } if bytes == size));
    made.map(|event| (event.point.phase(), event.point.scope())).collect()
}

fn each_device_is_where_its_own_run_is(pools: &[ComputePool; 2]) {
    record::start(1000);
    let barrier = Barrier::new(2);
    let (blocks, runs) = (Mutex::new(Vec::new()), [Phase::Forward, Phase::Backward]);
    std::thread::scope(|threads| {
        for (pool, run) in pools.iter().zip(runs) {
            let (barrier, blocks) = (&barrier, &blocks);
            threads.spawn(move || {
                pool.install(|| {
                    let _phase = phase(run);
                    let _scope = scope(run.name());
                    // Both threads have begun.
                    barrier.wait();
                    on_compute_threads(|| {
                        let block = made_of(12_345);
                        charge(Account::Host, || blocks.lock().unwrap().push(block));
                    });
                    barrier.wait();
                });
            });
        }
    });
    let recordings = record::dump_devices(0);
    for (recording, run) in recordings[1..].iter().zip(runs) {
        assert_eq!(places_of(recording, 12_345), vec![(run, run.name().to_owned()); THREADS]);
    }
    // A free by another device is recorded at the execution point of this device.
    pools[0].install(|| {
        let _phase = phase(Phase::Step);
        let freed = std::mem::take(&mut *blocks.lock().unwrap());
        pools[1].install(|| {
            let _phase = phase(Phase::Eval);
            drop(freed);
        });
    });
    let recordings = record::dump_devices(0);
    let frees = |device: usize| -> Vec<Phase> {
        let events = recordings[device].events.iter();
        let freed = events.filter(|event| matches!(event.change, Change::Free { bytes: 12_345, .. }));
        freed.map(|event| event.point.phase()).collect()
    };
    assert_eq!((frees(1), frees(2)), (vec![Phase::Step; THREADS], vec![Phase::Eval; THREADS]));
    record::stop();
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

fn changes(recording: &Recording) -> Vec<Change> {
    recording.events.iter().map(|event| event.change).collect()
}

fn alloc(block: &[u8]) -> Change {
    Change::Alloc { address: block.as_ptr() as u64, bytes: block.len() as u64 }
}

fn events_are_split_by_device(pools: &[ComputePool; 2]) {
    let kept = pools[1].install(|| made_of(500_000));
    record::start(1000);
    let first = record::next_event();
    let one = pools[0].install(|| {
        record::mark_step(7, StepKind::Train);
        made_of(1000)
    });
    let two = pools[1].install(|| made_of(2000));
    let more = pools[0].install(|| made_of(3000));
    record::mark_step(8, StepKind::Train);
    let recordings = record::dump_devices(0);
    let step = |number| Change::Step { number, kind: StepKind::Train };
    assert_eq!(changes(&recordings[0]), [step(8)]);
    assert_eq!(changes(&recordings[1]), [step(7), alloc(&one), alloc(&more)]);
    assert_eq!(changes(&recordings[2]), [alloc(&two)]);
    let numbers = |device: usize| -> Vec<u64> {
        recordings[device].events.iter().map(|event| event.number - first).collect()
    };
    assert_eq!([0, 1, 2].map(numbers), [vec![4], vec![0, 1, 3], vec![2]]);
    for (device, recording) in recordings.iter().enumerate() {
        assert_eq!(
            (recording.device, recording.first_event, recording.end_event),
            (device, first, first + 5)
        );
        assert_eq!(level(recording), i128::from(read_device(device).in_use_bytes.get()));
        assert_eq!(*recording, record::dump_device(device, 0));
        assert_eq!(*recording, on_device(device, record::dump));
        let timeline = recording.timeline(&Notes::default());
        assert_eq!(timeline.levels().last().map(|it| i128::from(it.total().get())), Some(level(recording)));
        assert_eq!(timeline.spans_of(SpanKind::Step).count(), usize::from(device < 2));
    }
    assert!(recordings[2].in_use_bytes.get() >= 500_000);
    // A dump from a later event begins with the bytes in use before it.
    let late = record::dump_device(1, first + 2);
    assert_eq!(
        (changes(&late), late.in_use_bytes.get()),
        (vec![alloc(&more)], read_device(1).in_use_bytes.get() - 3000)
    );
    record::stop();
    // The bytes in use are those at the end, for every device.
    let gone = pools[1].install(|| made_of(9000));
    assert_eq!(record::dump_devices(0), recordings);
    drop((kept, one, two, more, gone));
}

fn note(block: &[u8], tensor: &str) -> Note {
    Note {
        next_event: record::next_event(),
        address: block.as_ptr() as u64,
        bytes: Some(Bytes::new(block.len() as u64)),
        category: Category::Parameters,
        tensor: tensor.into(),
        shape: vec![block.len()],
        dtype: "u8".into(),
    }
}

fn notes_and_numbers_find_the_events_of_a_device(pools: &[ComputePool; 2]) {
    let before = pools[0].install(|| made_of(5000));
    record::start(1000);
    let noise = || pools[1].install(|| drop(made_of(64)));
    noise();
    let mut held = vec![note(&before, "before")];
    set_device_limit(1, Some(Bytes::new(0)));
    let made = pools[0].install(|| made_of(6000));
    let crossed = on_device(1, take_crossing).unwrap();
    set_device_limit(1, None);
    held.push(note(&made, "made"));
    noise();
    let moment = record::next_event();
    let address = made.as_ptr() as u64;
    drop(made);
    noise();
    let recording = record::dump_device(1, 0);
    let timeline = recording.timeline(&Notes { tensors: held, ..Notes::default() });
    assert_eq!(recording.events.len(), 2);
    let mut named: Vec<_> = timeline
        .blocks
        .iter()
        .filter(|block| block.tensor.number() > 0)
        .map(|block| (timeline.names.text(block.tensor), block.bytes, block.born, block.died))
        .collect();
    named.sort_unstable();
    assert_eq!(named, [("before", 5000, 0, None), ("made", 6000, 1, Some(2))]);
    // The noted event is before the free.
    assert_eq!(recording.events[1].change, Change::Free { address, bytes: 6000 });
    assert_eq!(recording.events_before(moment), 1);
    assert_eq!(recording.events_before(recording.first_event), 0);
    assert_eq!(recording.events_before(recording.end_event), 2);
    // The allocation above the limit is before the noted event.
    assert_eq!((crossed.requested_bytes.get(), recording.events_before(crossed.event)), (6000, 1));
    record::stop();
    drop(before);
}

fn all_recordings_end_at_one_moment(pools: &[ComputePool; 2]) {
    record::start(4096);
    let before = in_use();
    let is_over = AtomicBool::new(false);
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    std::thread::scope(|threads| {
        // Also if a check fails.
        let _ends = Ends(&is_over);
        let is_over = &is_over;
        for (pool, size) in pools.iter().zip([1000, 3000]) {
            threads.spawn(move || {
                while !is_over.load(Relaxed) {
                    // One device allocates, the other frees.
                    let block = pool.install(|| made_of(size));
                    pools[usize::from(size == 1000)].install(|| drop(block));
                }
            });
        }
        let first = record::next_event();
        while record::next_event() < first + 2 * 4096 {
            std::thread::sleep(Duration::from_micros(200));
            let recordings = record::dump_devices(0);
            assert!(recordings.iter().all(|it| it.end_event == recordings[0].end_event));
            for (device, size) in [(1, 1000), (2, 3000)] {
                let holds = match recordings[device].events.last().map(|event| event.change) {
                    None => continue,
                    Some(Change::Free { .. }) => 0,
                    Some(Change::Alloc { .. }) => size,
                    Some(other) => panic!("{other:?}"),
                };
                assert_eq!(level(&recordings[device]) - i128::from(before[device]), holds);
            }
        }
    });
    record::stop();
}

fn the_only_device_has_all_figures_of_a_thread_that_says_nothing() {
    let before = in_use();
    let block = charge(Account::Device, || made_of(1 << 20));
    assert_eq!((more(before), read().in_use_bytes), ([1 << 20, 0, 0], read_device(0).in_use_bytes));
    drop(block);
}
