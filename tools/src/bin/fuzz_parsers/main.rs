//! Feeds random and damaged bytes to every parser. None may panic, take more time than its bytes allow, or allocate
//! beyond its bound. 50 million inputs take some minutes on two cores.
//!
//! ```text
//! cargo xtask fuzz-parsers 50000000
//! cargo xtask fuzz-parsers 100000 --only csv --seed 7
//! ```
//!
//! Parsers share the inputs on all cores; one that takes long gets fewer. The seed (default 0) determines all inputs, so
//! that a failure can be repeated. An input that fails is written to `fuzz-<parser>-<n>.bin` in the folder for temporary
//! files. The exit code is 1 after a failure.
//!
//! - **Panic**: the parser panics. An overflow of the stack, or an allocation that the system refuses, ends this program
//!   at once: the last line is then `aborted: <parser>: <file of the input>`.
//! - **Hang**: it takes more than 1 s for each MiB of its input and 100 ms, of processor time.
//! - **Beyond the bound**: it holds more bytes than its bound, a multiple of the input's size and a constant, see
//!   [`mod@targets`].
//!
//! The last line is for programs: `total: inputs=… panics=… beyond_bound=… hangs=…`.

mod allocator;
mod clock;
mod feed;
mod flight;
mod mutate;
mod report;
mod tally;
mod targets;

use std::{env, panic, process::ExitCode};

use self::{allocator::PerThread, targets::targets};

#[global_allocator]
static ALLOCATOR: PerThread = PerThread;

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
    let targets: Vec<_> = targets().into_iter().filter(|target| target.name.contains(&only)).collect();
    if targets.is_empty() {
        eprintln!("no parser is called `{only}`");
        return ExitCode::FAILURE;
    }
    // Panics are counted and their inputs kept; a backtrace for each would hide the table.
    panic::set_hook(Box::new(|_| {}));
    flight::keep_last_inputs();
    report::report(&targets, &feed::run(&targets, inputs, seed))
}
