//! Feeds the inputs to the parsers, on all cores.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use oomph_core::{Generator, Key};

use crate::{
    allocator::peak_of,
    clock,
    flight::{self, Flight},
    mutate,
    tally::{Counts, Failure, Tally, Worst},
    targets::{MOST_BYTES, Target},
};

/// Inputs that one thread makes of a parser with a whole share before it asks for more.
const CHUNK: u64 = 2_000;
/// The time that any input may take, beside [`PER_BYTES`]: pages that were never touched before, a first call that fills a
/// cache.
const FIXED: Duration = Duration::from_millis(100);
/// The time that each [`MOST_BYTES`] of an input may take.
const PER_BYTES: Duration = Duration::from_secs(1);
/// Only what takes longer by the clock is measured again by the processor's time, which costs a call of the system.
const WORTH_A_LOOK: Duration = Duration::from_millis(2);

/// A part of a parser's inputs.
struct Chunk {
    target: usize,
    number: u64,
    inputs: u64,
}

/// Feeds `inputs` in all to the parsers, by their shares.
pub(crate) fn run(targets: &[Target], inputs: u64, seed: u64) -> Vec<Tally> {
    let tallies: Vec<_> = targets.iter().map(|_| Tally::default()).collect();
    let chunks = chunks(targets, inputs);
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let flights: Vec<_> = (0..threads).map(|_| Flight::new()).collect();
    let work = |flight: &Flight| {
        flight.watched(|| {
            while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
                let target = &targets[chunk.target];
                let key = Key::new(seed).with_name(target.name).with(chunk.number);
                feed(target, &tallies[chunk.target], key, chunk.inputs, flight);
            }
        });
    };
    thread::scope(|scope| {
        let (work, over) = (&work, &is_over);
        // Each is waited for only after the watch: until then its clock can be read.
        let workers: Vec<_> = flights.iter().map(|flight| scope.spawn(move || work(flight))).collect();
        let watch = scope.spawn(|| flight::watch(&flights, over));
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(20));
        }
        is_over.store(true, Ordering::SeqCst);
        watch.thread().unpark();
    });
    tallies
}

/// The parts of all inputs, in turns: a parser that takes long does not stay for the end.
fn chunks(targets: &[Target], inputs: u64) -> Vec<Chunk> {
    let shares: u64 = targets.iter().map(|target| target.share).sum();
    let counts: Vec<u64> =
        targets.iter().map(|target| (inputs * target.share).div_ceil(shares.max(1))).collect();
    let mut chunks = Vec::new();
    for (target, (&count, Target { share, .. })) in counts.iter().zip(targets).enumerate() {
        let size = (CHUNK * share / 100).max(20);
        let numbers = 0..count.div_ceil(size);
        chunks.extend(numbers.map(|number| Chunk {
            target,
            number,
            inputs: size.min(count - number * size),
        }));
    }
    chunks.sort_by_key(|chunk| (chunk.number, chunk.target));
    chunks
}

fn feed(target: &Target, tally: &Tally, key: Key, inputs: u64, flight: &Flight) {
    let mut generator = Generator::at(key);
    let mut counts = Counts { inputs, ..Counts::default() };
    let begun = clock::own();
    for _ in 0..inputs {
        let input = (target.finish)(mutate::input(&mut generator, target));
        counts.largest = counts.largest.max(input.len());
        let start = Instant::now();
        let (outcome, peak) = peak_of(|| {
            let parse = || flight.parse(target.name, &input, || (target.parse)(&input));
            catch_unwind(AssertUnwindSafe(parse))
        });
        let wall = start.elapsed();
        let mut fail = |failure: Failure, what: &str| {
            counts.failures[failure as usize] += 1;
            tally.keep(target.name, &input, what);
        };
        match outcome {
            Ok(is_accepted) => counts.accepted += u64::from(is_accepted),
            Err(_) => fail(Failure::Panic, "panics"),
        }
        let share = peak as f64 / (target.bound)(&input) as f64;
        if share > 1.0 {
            fail(Failure::BeyondBound, &format!("allocates {peak} bytes"));
        }
        counts.memory.consider(Worst { share, amount: peak as u64, size: input.len() });
        if wall > WORTH_A_LOOK {
            let time = processor_time(target, &input, flight);
            let share = time.as_secs_f64() / allowed(input.len()).as_secs_f64();
            if share > 1.0 {
                fail(Failure::Hang, &format!("takes {} ms", time.as_millis()));
            }
            counts.time.consider(Worst { share, amount: time.as_micros() as u64, size: input.len() });
        }
    }
    counts.time_in_all = clock::own().saturating_sub(begun);
    tally.add(&counts);
}

/// The time that an input of so many bytes may take.
fn allowed(bytes: usize) -> Duration {
    FIXED + PER_BYTES.mul_f64(bytes as f64 / MOST_BYTES as f64)
}

/// The processor time of parsing an input once more: by the clock, another process may have taken it.
fn processor_time(target: &Target, input: &[u8], flight: &Flight) -> Duration {
    let before = clock::own();
    // A panic was counted the first time.
    let parse = || flight.parse(target.name, input, || (target.parse)(input));
    let _ = catch_unwind(AssertUnwindSafe(parse));
    clock::own().saturating_sub(before)
}
