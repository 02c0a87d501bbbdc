//! A memory limit that simulates a smaller device, in a program with the meter.

use std::sync::Barrier;

use oomph_core::{Bytes, Phase};
use oomph_memory::{
    Account, Crossing, charge, crossing, default_limit, limit, read, set_limit, take_crossing,
};

oomph_memory::install_meter!();

/// An allocation that the compiler cannot remove.
fn made_of(size: usize) -> Vec<u8> {
    std::hint::black_box(vec![0u8; size])
}

fn device<R>(work: impl FnOnce() -> R) -> R {
    charge(Account::Device, work)
}

/// One test: the limit is global to the process, and tests of a binary run concurrently.
#[test]
fn the_first_allocation_above_the_limit_is_kept() {
    assert_eq!((limit(), crossing()), (None, None));
    what_stays_below_or_is_the_hosts_is_no_crossing();
    the_first_crossing_is_kept_until_it_is_taken();
    a_block_that_grows_may_cross();
    of_several_threads_one_crosses_first();
    without_a_limit_nothing_crosses();
    the_machine_has_a_default();
}

/// A limit of `bytes` above the bytes in use.
fn set_limit_above_level(bytes: u64) -> Bytes {
    let limit_bytes = Bytes::new(read().in_use_bytes.get() + bytes);
    set_limit(Some(limit_bytes));
    limit_bytes
}

fn what_stays_below_or_is_the_hosts_is_no_crossing() {
    let limit_bytes = set_limit_above_level(1 << 20);
    assert_eq!(limit(), Some(limit_bytes));
    let exactly = device(|| made_of(1 << 20));
    let host = made_of(8 << 20);
    assert_eq!(crossing(), None);
    drop((exactly, host));
}

fn the_first_crossing_is_kept_until_it_is_taken() {
    let limit_bytes = set_limit_above_level(100_000);
    let below = device(|| made_of(60_000));
    let (first, point) = {
        let _forward = oomph_core::phase(Phase::Forward);
        let _stage = oomph_core::scope("layer1");
        (device(|| made_of(50_000)), oomph_core::current_point())
    };
    let expected = Crossing {
        device: 0,
        requested_bytes: Bytes::new(50_000),
        in_use_bytes: Bytes::new(limit_bytes.get() + 10_000),
        limit_bytes,
        point,
        event: oomph_memory::record::next_event(),
    };
    // Both allocations succeed.
    let second = device(|| made_of(70_000));
    assert_eq!(read().in_use_bytes.get(), limit_bytes.get() + 80_000);
    assert_eq!(crossing(), Some(expected));
    assert_eq!((take_crossing(), take_crossing(), crossing()), (Some(expected), None, None));
    assert_eq!((point.phase(), point.scope()), (Phase::Forward, "layer1".to_owned()));

    // Once a crossing is taken, the next one is recorded. A new limit clears it.
    let third = device(|| made_of(5000));
    assert_eq!(crossing().map(|next| next.requested_bytes), Some(Bytes::new(5000)));
    set_limit_above_level(1 << 30);
    assert_eq!(crossing(), None);
    drop((below, first, second, third));
}

fn a_block_that_grows_may_cross() {
    set_limit_above_level(10_000);
    let grown = device(|| {
        let mut grown: Vec<u8> = std::hint::black_box(Vec::with_capacity(8000));
        assert_eq!(crossing(), None);
        grown.reserve_exact(12_000);
        grown
    });
    let seen =
        take_crossing().map(|it| (it.requested_bytes.get(), it.in_use_bytes.get() - it.limit_bytes.get()));
    assert_eq!(seen, Some((12_000, 2000)));
    drop(grown);
}

fn of_several_threads_one_crosses_first() {
    let limit_bytes = set_limit_above_level(1_000_000);
    let barrier = Barrier::new(4);
    let hold = |size: usize| {
        device(|| {
            let block = made_of(size);
            barrier.wait();
            drop(block);
        });
    };
    std::thread::scope(|scope| (0..4).for_each(|at| drop(scope.spawn(move || hold(400_000 + at)))));
    let crossing = take_crossing().unwrap();
    // Two fit, the third does not.
    assert!((400_000..400_004).contains(&crossing.requested_bytes.get()));
    let above = crossing.in_use_bytes.get() - limit_bytes.get();
    assert!((200_000..200_012).contains(&above), "{above}");
    assert_eq!(take_crossing(), None);
}

fn without_a_limit_nothing_crosses() {
    set_limit(None);
    device(|| drop(made_of(100 << 20)));
    assert_eq!((limit(), crossing()), (None, None));
}

fn the_machine_has_a_default() {
    if cfg!(target_os = "linux") {
        let default = default_limit().unwrap();
        assert!(default.bytes <= oomph_memory::machine().memory_bytes, "{default}");
        assert!(default.reserve_bytes.get() > 0);
    }
}
