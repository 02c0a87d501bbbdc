//! What the meter costs: nanoseconds for an allocation and its free, by the system's allocator, counted, and recorded.
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
    Account, Category, Clock, CountingAllocator, Draft, Held, Name, Names, Origin, RawBlock, charge,
    record::{self, Notes},
    set_limit,
};

/// The fastest of several runs: whatever else the machine does makes runs slower, never faster.
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

/// 100,000 events as of training: each step keeps 2,000 blocks for backward, 400 of the others are noted.
fn realistic() -> Draft {
    let mut names = Names::default();
    let scopes: Vec<_> =
        (0..64).map(|layer| names.of(&format!("layer{}.{}.conv", layer / 8, layer % 8))).collect();
    let stages = (0..64).map(|layer| format!("layer{}.{}", layer / 8, layer % 8)).collect();
    let tensor = names.of("weight");
    let (mut blocks, mut held, mut places) = (Vec::new(), Vec::new(), vec![(Phase::Idle, Name::NONE)]);
    while places.len() < 100_000 {
        let start = places.len() as u32;
        for kept in 0..2000u32 {
            let scope = scopes[kept as usize * scopes.len() / 2000];
            places.push((Phase::Forward, scope));
            let (born, died) = (start + kept, Some(start + 3999 - kept));
            let address = u64::from(kept) * 4096;
            let (operation, dtype) = (Name::NONE, Name::NONE);
            let (phase, shape) = (Phase::Forward, Vec::new());
            blocks.push(RawBlock { address, bytes: 4096, born, died, phase, scope, operation, shape, dtype });
            if kept % 5 == 0 {
                let (category, shape) = (Category::Inputs, vec![32, 3, 224, 224]);
                held.push(Held { event: born, address: address + 64, category, tensor, shape, dtype });
            }
        }
        places.extend([(Phase::Backward, Name::NONE); 2000]);
    }
    Draft {
        origin: Origin::Measured,
        title: String::new(),
        device: "cpu".into(),
        limit_bytes: None,
        clock: Clock::Nanoseconds,
        times: (0..places.len() as u64).collect(),
        places,
        steps: Vec::new(),
        blocks,
        held,
        stages,
        names,
        lost_events: 0,
    }
}
