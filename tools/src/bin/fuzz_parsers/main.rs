//! Feeds random and damaged bytes to every parser. None may panic or allocate beyond its bound. 10 million inputs take
//! five minutes on two cores.
//!
//! ```text
//! cargo xtask fuzz-parsers 10000000
//! cargo xtask fuzz-parsers 100000 --only csv --seed 7
//! ```
//!
//! All parsers share the inputs equally, on all cores. The seed (default 0) determines all inputs, so that a failure can be
//! repeated. An input that fails is written to `fuzz-<parser>-<n>.bin` in the folder for temporary files. A bound is a
//! multiple of the input's size and a constant, see [`mod@targets`]. The exit code is 1 after a failure.

mod allocator;
mod mutate;
mod targets;

use std::{
    env,
    panic::{self, AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use oomph_core::{Generator, Key};

use self::{
    allocator::{PerThread, peak_of},
    targets::{Target, targets},
};

#[global_allocator]
static ALLOCATOR: PerThread = PerThread;

/// Inputs that one thread makes before it asks for more.
const CHUNK: u64 = 2_000;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let after = |option: &str| {
        let place = arguments.iter().position(|argument| argument == option)?;
        arguments.get(place + 1).cloned()
    };
    let number =
        |text: Option<String>, default: u64| text.and_then(|text| text.parse().ok()).unwrap_or(default);
    let inputs = number(arguments.first().cloned(), 100_000);
    let (seed, only) = (number(after("--seed"), 0), after("--only").unwrap_or_default());
    let targets: Vec<_> = targets().into_iter().filter(|target| target.name.starts_with(&only)).collect();
    if targets.is_empty() {
        eprintln!("no parser is called `{only}`");
        return ExitCode::FAILURE;
    }
    // Panics are counted and their inputs kept; a backtrace for each would hide the table.
    panic::set_hook(Box::new(|_| {}));
    let results = run(&targets, inputs.div_ceil(targets.len() as u64), seed);
    report(&targets, &results)
}

/// The results of one parser.
#[derive(Default)]
struct Tally {
    inputs: AtomicU64,
    accepted: AtomicU64,
    panics: AtomicU64,
    beyond_bound: AtomicU64,
    nanoseconds: AtomicU64,
    /// The worst allocation as a share of its bound, with its bytes and those of the input.
    worst: Mutex<(f64, usize, usize)>,
}

fn run(targets: &[Target], each: u64, seed: u64) -> Vec<Tally> {
    let results: Vec<_> = targets.iter().map(|_| Tally::default()).collect();
    let chunks = each.div_ceil(CHUNK);
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            let (target, chunk) = (chunk % targets.len(), (chunk / targets.len()) as u64);
            if chunk >= chunks {
                return;
            }
            let key = Key::new(seed).with_name(targets[target].name).with(chunk);
            let count = CHUNK.min(each - chunk * CHUNK);
            feed(&targets[target], &results[target], key, count);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    results
}

fn feed(target: &Target, tally: &Tally, key: Key, count: u64) {
    let mut generator = Generator::at(key);
    let (mut accepted, mut worst) = (0, (0.0, 0, 0));
    let start = Instant::now();
    for _ in 0..count {
        let input = (target.finish)(mutate::input(&mut generator, &target.seeds, target.words));
        let (outcome, peak) = peak_of(|| catch_unwind(AssertUnwindSafe(|| (target.parse)(&input))));
        match outcome {
            Ok(is_accepted) => accepted += u64::from(is_accepted),
            Err(_) => keep(target, &input, "panics", &tally.panics),
        }
        let share = peak as f64 / (target.bound)(&input) as f64;
        if share > 1.0 {
            keep(target, &input, &format!("allocates {peak} bytes"), &tally.beyond_bound);
        }
        if share > worst.0 {
            worst = (share, peak, input.len());
        }
    }
    tally.nanoseconds.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    tally.inputs.fetch_add(count, Ordering::Relaxed);
    tally.accepted.fetch_add(accepted, Ordering::Relaxed);
    let mut known = tally.worst.lock().expect("no thread panics while it holds this");
    if worst.0 > known.0 {
        *known = worst;
    }
}

/// Counts a failure and writes the first few inputs to files.
fn keep(target: &Target, input: &[u8], what: &str, count: &AtomicU64) {
    const KEPT: u64 = 10;
    let number = count.fetch_add(1, Ordering::Relaxed);
    if number < KEPT {
        let path = env::temp_dir().join(format!("fuzz-{}-{number}.bin", target.name.replace(' ', "-")));
        let written = std::fs::write(&path, input).map_or_else(|error| error.to_string(), |()| String::new());
        eprintln!("{} {what} at {} bytes: {} {written}", target.name, input.len(), path.display());
    }
}

fn report(targets: &[Target], results: &[Tally]) -> ExitCode {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (mut inputs, mut failures) = (0, 0);
    println!(
        "| parser | inputs | accepted | panics | beyond the bound | most allocated | of the bound | µs each |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    for (target, tally) in targets.iter().zip(results) {
        let (share, peak, size) = *tally.worst.lock().expect("all threads came to their end");
        let each = of(&tally.nanoseconds) as f64 / of(&tally.inputs).max(1) as f64 / 1000.0;
        println!(
            "| {} | {} | {} | {} | {} | {peak} bytes for {size} | {:.0} % | {each:.1} |",
            target.name,
            of(&tally.inputs),
            of(&tally.accepted),
            of(&tally.panics),
            of(&tally.beyond_bound),
            100.0 * share,
        );
        inputs += of(&tally.inputs);
        failures += of(&tally.panics) + of(&tally.beyond_bound);
    }
    println!("\n{inputs} inputs, {failures} failures");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
