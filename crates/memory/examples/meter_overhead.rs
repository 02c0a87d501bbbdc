//! The cost of the meter: nanoseconds for an allocation and its free, with the system's allocator, counted, and recorded.
//!
//! `cargo run --release -p oomph-memory --example meter_overhead`

use std::{
    alloc::{GlobalAlloc, Layout, System},
    hint::black_box,
    sync::Barrier,
    time::Instant,
};

use oomph_core::{Bytes, Phase};
use oomph_memory::{
    Account, CountingAllocator, charge,
    record::{self, Notes},
    set_limit,
};
use oomph_timeline::{Block, Category, Clock, Draft, Name, Origin, TensorLocation, Timeline};

/// The fastest of several runs: other work of the machine only makes runs slower.
fn nanoseconds(allocator: &(impl GlobalAlloc + Sync), account: Account, threads: usize, size: usize) -> f64 {
    let runs = (0..15).map(|_| run(allocator, account, threads, size));
    runs.fold(f64::INFINITY, f64::min)
}

/// One allocation and its free, on each of the threads at once.
fn run(allocator: &(impl GlobalAlloc + Sync), account: Account, threads: usize, size: usize) -> f64 {
    const PAIRS: u32 = 20_000;
    let layout = Layout::from_size_align(size, 4).expect("a size that is a layout");
    let barrier = Barrier::new(threads);
    let measure = || {
        charge(account, || {
            barrier.wait();
            let start = Instant::now();
            for _ in 0..PAIRS {
                // SAFETY: the layout's size is above 0, and what is allocated is freed with the same layout.
                unsafe {
                    let block = black_box(allocator.alloc(layout));
                    allocator.dealloc(block, layout);
                }
            }
            start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
        })
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(measure)).collect();
        let own = measure();
        others.into_iter().map(|other| other.join().expect("no panic")).fold(own, f64::max)
    })
}

fn device(threads: usize, size: usize) -> f64 {
    nanoseconds(&CountingAllocator, Account::Device, threads, size)
}

fn main() {
    println!("nanoseconds for an allocation and its free; in brackets, times what the system takes");
    println!("threads     size  system         host       device     + limit     + recording");
    for threads in [1, 2] {
        for size in [16, 256, 4096, 65_536, 1 << 20] {
            let system = nanoseconds(&System, Account::Host, threads, size);
            let host = nanoseconds(&CountingAllocator, Account::Host, threads, size);
            let counted = device(threads, size);
            set_limit(Some(Bytes::mib(1 << 20)));
            let limited = device(threads, size);
            set_limit(None);
            record::start(100_000);
            let recorded = device(threads, size);
            record::stop();
            print!("{threads:>7} {size:>8} {system:>7.1}");
            for figure in [host, counted, limited, recorded] {
                print!("  {figure:>6.1} ({:.1})", figure / system);
            }
            println!();
        }
    }
    record::start(100_000);
    run(&CountingAllocator, Account::Device, 1, 64);
    run(&CountingAllocator, Account::Device, 2, 64);
    record::stop();
    let start = Instant::now();
    let recording = record::dump();
    let dumped = start.elapsed();
    let draft = recording.draft(&Notes::default());
    let drafted = start.elapsed() - dumped;
    let start = Instant::now();
    let timeline = draft.assemble();
    println!(
        "{} events: dump {dumped:.1?}, draft {drafted:.1?}, assemble {:.1?}",
        timeline.times.len(),
        start.elapsed()
    );
    let (draft, start) = (realistic(), Instant::now());
    let timeline = draft.assemble();
    println!(
        "{} events of steps, {} blocks: assemble {:.1?}",
        timeline.times.len(),
        timeline.blocks.len(),
        start.elapsed()
    );
}

/// 100,000 events of a training: each step keeps 2,000 blocks for backward, of which 400 are noted.
fn realistic() -> Draft {
    let mut timeline = Timeline::new(Origin::Measured, Clock::Nanoseconds);
    let names = &mut timeline.names;
    let scopes: Vec<_> =
        (0..64).map(|layer| names.of(&format!("layer{}.{}.conv", layer / 8, layer % 8))).collect();
    let stages = (0..64).map(|layer| format!("layer{}.{}", layer / 8, layer % 8)).collect();
    let tensor = names.of("weight");
    let (mut tensors, mut points) = (Vec::new(), vec![(Phase::Idle, Name::NONE)]);
    while points.len() < 100_000 {
        let start = points.len() as u32;
        for kept in 0..2000u32 {
            let scope = scopes[kept as usize * scopes.len() / 2000];
            points.push((Phase::Forward, scope));
            let (born, died) = (start + kept, Some(start + 3999 - kept));
            let address = u64::from(kept) * 4096;
            let (phase, dtype) = (Phase::Forward, Name::NONE);
            timeline.blocks.push(Block { died, phase, scope, ..Block::new(address, 4096, born) });
            if kept % 5 == 0 {
                let (category, shape) = (Category::Inputs, vec![32, 3, 224, 224]);
                tensors.push(TensorLocation {
                    event: born,
                    address: address + 64,
                    category,
                    tensor,
                    shape,
                    dtype,
                });
            }
        }
        points.extend([(Phase::Backward, Name::NONE); 2000]);
    }
    timeline.times = (0..points.len() as u64).collect();
    Draft { timeline, points, tensors, stages }
}
