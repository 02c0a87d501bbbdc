//! The meter in a program that has it.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};

use oomph_memory::{Account, charge, compute_threads, read};

oomph_memory::install_meter!();

/// One test: the counters are the process's, and tests of one binary run at the same time.
#[test]
fn the_meter_counts_what_each_account_holds() {
    assert!(oomph_memory::is_installed());
    frees_go_to_the_account_of_the_allocation();
    peaks_are_kept_until_they_are_restarted();
    every_alignment_survives_growing_and_zeroing();
    compute_threads_are_charged_to_the_device();
}

fn frees_go_to_the_account_of_the_allocation() {
    let before = read().in_use_bytes;
    let block = charge(Account::Device, || vec![0u8; 1 << 20]);
    assert_eq!(read().in_use_bytes.get(), before.get() + (1 << 20));
    // Freed by a thread of the host's account.
    std::thread::spawn(move || drop(block)).join().unwrap();
    assert_eq!(read().in_use_bytes, before);
    let host = vec![1u8; 3 << 20];
    assert_eq!(read().in_use_bytes, before);
    assert!(read().host_bytes.get() >= 3 << 20);
    drop(host);
}

fn peaks_are_kept_until_they_are_restarted() {
    oomph_memory::restart_peak();
    let before = read();
    assert_eq!(before.peak_in_use_bytes, before.in_use_bytes);
    charge(Account::Device, || drop(vec![0u8; 5 << 20]));
    let after = read();
    assert_eq!(after.peak_in_use_bytes.get(), before.in_use_bytes.get() + (5 << 20));
    assert_eq!(after.in_use_bytes, before.in_use_bytes);
    assert_eq!(after.allocations, before.allocations + 1);
    oomph_memory::restart_peak();
    assert_eq!(read().peak_in_use_bytes, before.in_use_bytes);
}

fn every_alignment_survives_growing_and_zeroing() {
    let before = read().in_use_bytes;
    charge(Account::Device, || {
        for align in [1, 2, 8, 16, 32, 64, 256, 4096] {
            let layout = Layout::from_size_align(100, align).unwrap();
            // SAFETY: layouts have a size above 0, and each address is used with the layout that it was made with.
            unsafe {
                let zeroed = alloc_zeroed(layout);
                assert!((0..100).all(|at| *zeroed.add(at) == 0));
                dealloc(zeroed, layout);
                let block = alloc(layout);
                (0..100).for_each(|at| block.add(at).write(at as u8));
                let grown = realloc(block, layout, 70_000);
                assert_eq!(grown as usize % align, 0);
                assert!((0..100).all(|at| *grown.add(at) == at as u8));
                assert_eq!(read().in_use_bytes.get(), before.get() + 70_000);
                dealloc(grown, Layout::from_size_align(70_000, align).unwrap());
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
    rayon::spawn(move || sender.send(vec![0u8; 1 << 20]).unwrap());
    let block = receiver.recv().unwrap();
    // Rayon's own small blocks come on top.
    assert!(read().in_use_bytes.get() >= before.get() + (1 << 20));
    drop(block);
    assert!(compute_threads(std::num::NonZeroUsize::new(2)).is_ok());
    let error = compute_threads(std::num::NonZeroUsize::new(3)).unwrap_err();
    assert_eq!(error.to_string(), "the compute threads run already, as 2, and cannot become 3");
}
