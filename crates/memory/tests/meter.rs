//! The meter, in a program that installs it.

use std::{
    alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc},
    hint::black_box,
};

use oomph_memory::{Account, charge, compute_threads, read};

oomph_memory::install_meter!();

/// One test: counters are global to the process, and tests of a binary run concurrently.
#[test]
fn the_meter_counts_what_each_account_holds() {
    assert!(oomph_memory::is_installed());
    frees_go_to_the_account_of_the_allocation();
    peaks_are_kept_until_they_are_restarted();
    every_alignment_survives_growing_and_zeroing();
    compute_threads_are_charged_to_the_device();
}

/// An allocation that the compiler cannot remove.
fn made_of(size: usize) -> Vec<u8> {
    black_box(vec![0u8; size])
}

fn frees_go_to_the_account_of_the_allocation() {
    let before = read().in_use_bytes;
    let block = charge(Account::Device, || made_of(1 << 20));
    assert_eq!(read().in_use_bytes.get(), before.get() + (1 << 20));
    // A thread of the host account frees it.
    std::thread::spawn(move || drop(block)).join().unwrap();
    assert_eq!(read().in_use_bytes, before);
    let host = made_of(3 << 20);
    assert_eq!(read().in_use_bytes, before);
    assert!(read().host_bytes.get() >= 3 << 20);
    drop(host);
}

fn peaks_are_kept_until_they_are_restarted() {
    oomph_memory::restart_peak();
    let before = read();
    assert_eq!(before.peak_in_use_bytes, before.in_use_bytes);
    charge(Account::Device, || drop(made_of(5 << 20)));
    let after = read();
    assert_eq!(after.peak_in_use_bytes.get(), before.in_use_bytes.get() + (5 << 20));
    assert_eq!(after.in_use_bytes, before.in_use_bytes);
    assert_eq!(after.allocations, before.allocations + 1);
    oomph_memory::restart_peak();
    assert_eq!(read().peak_in_use_bytes, before.in_use_bytes);
}

fn every_alignment_survives_growing_and_zeroing() {
    const SIZE: usize = 70_000;
    const GROWN: usize = 200_000;
    let before = read().in_use_bytes;
    charge(Account::Device, || {
        for align in [1, 2, 8, 16, 32, 64, 256, 4096] {
            // Large enough to count as a tensor's, with any alignment.
            let layout = Layout::from_size_align(SIZE, align).unwrap();
            // SAFETY: layouts have a size above 0, and each address is used with its own layout.
            unsafe {
                let zeroed = black_box(alloc_zeroed(layout));
                assert!((0..SIZE).all(|at| *zeroed.add(at) == 0));
                dealloc(zeroed, layout);
                let block = black_box(alloc(layout));
                (0..SIZE).for_each(|at| block.add(at).write(at as u8));
                let grown = black_box(realloc(block, layout, GROWN));
                assert_eq!(grown as usize % align, 0);
                assert!((0..SIZE).all(|at| *grown.add(at) == at as u8));
                assert_eq!(read().in_use_bytes.get(), before.get() + GROWN as u64);
                dealloc(grown, Layout::from_size_align(GROWN, align).unwrap());
            }
        }
    });
    assert_eq!(read().in_use_bytes, before);
}

fn compute_threads_are_charged_to_the_device() {
    let count = compute_threads(std::num::NonZeroUsize::new(2)).unwrap();
    assert_eq!(count, 2);
    let before = read().in_use_bytes;
    let (sender, receiver) = std::sync::mpsc::channel();
    rayon::spawn(move || sender.send(made_of(1 << 20)).unwrap());
    let block = receiver.recv().unwrap();
    // Rayon adds small blocks of its own.
    assert!(read().in_use_bytes.get() >= before.get() + (1 << 20));
    drop(block);
    assert!(compute_threads(std::num::NonZeroUsize::new(2)).is_ok());
    let error = compute_threads(std::num::NonZeroUsize::new(3)).unwrap_err();
    assert_eq!(error.to_string(), "2 compute threads already run; their number cannot change to 3");
}
