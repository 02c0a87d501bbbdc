//! The commands of oomph.
//!
//! - [`run`]: the command line, with the models, data sources and tasks of a [`Registry`].
//!
//! ```no_run
//! oomph_memory::install_meter!();
//!
//! fn main() -> std::process::ExitCode {
//!     oomph_cli::run(oomph_trainer::Registry::builtin())
//! }
//! ```
//!
//! Results go to stdout, everything else to stderr. The exit code is 0 for success, 1 for an error, 2 for an invalid
//! command line, 75 for out of memory, and 130 or 143 if SIGINT or SIGTERM stopped the command.
//!
//! This crate parses arguments, calls the library and prints results. It decides nothing about training.

mod arguments;
mod commands;
#[doc(hidden)]
pub mod parsers;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
};

use console::{colors_enabled, colors_enabled_stderr};
use oomph_arguments::WrongValue;
#[cfg(unix)]
use oomph_command::refusal;
use oomph_command::{bug, card, error, exit, failure, output, probe, ranks, signals, verdict};
use oomph_core::printable;
use oomph_engine::device_failure;
use oomph_terminal::{echo, notices, numbers, progress, stream, table};
use oomph_trainer::Registry;

use crate::{arguments::Arguments, error::CliError, exit::Exit};

/// Runs the command of this process's command line.
///
/// Call it as the only statement of `main`. It replaces the panic hook. While it trains, it handles SIGINT, SIGTERM,
/// SIGUSR1 and SIGUSR2.
pub fn run(registry: Registry) -> ExitCode {
    #[cfg(unix)]
    refusal::require_memory_to_start();
    bug::record_panics();
    signals::survive_file_limit();
    #[cfg(unix)]
    refusal::explain_aborts();
    let arguments = match Arguments::read(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(answer) => {
            // Escaped before the answer quotes them: a line end in a word would begin a line of ours.
            let words = std::env::args_os().map(|word| printable(word.to_string_lossy()).into());
            ranks::once(|| show(Arguments::read(words).err().as_ref().unwrap_or(&answer)));
            return u8::try_from(answer.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    oomph_trainer::device::count_compiled_kernels();
    let json = arguments.command.json();
    // The registry is not used after a panic.
    let result = catch_unwind(AssertUnwindSafe(|| commands::run(&arguments.command, &registry)));
    match result.unwrap_or_else(|panicked| Err(bug::error_of(&*panicked))) {
        Ok(exit) => exit.into(),
        // The reader closed the pipe, as `head` does: it has all it wanted.
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            if error.occurs_on_all_ranks() {
                ranks::once(|| failure::report(&error, json));
            } else {
                failure::report(&error, json);
            }
            if let CliError::Bug(bug) = &error {
                bug.show_backtrace();
            }
            leave(error.exit())
        }
    }
}

/// Shows what is wrong with a command line; help and version are such answers too. It quotes the command line.
fn show(answer: &clap::Error) {
    if let Some(WrongValue { message, hint }) = WrongValue::of(answer) {
        return failure::refuse(&message, hint.as_deref());
    }
    let text = answer.render();
    let is_styled = if answer.use_stderr() { colors_enabled_stderr() } else { colors_enabled() };
    let text = if is_styled { text.ansi().to_string() } else { text.to_string() };
    if answer.use_stderr() {
        stream::write_line(text.trim_end_matches('\n'));
    } else {
        // A closed stream is no error here.
        let _ = stream::print(&text);
    }
}

/// Ends the process after an error.
///
/// After a failure of a GPU, its device thread may still compile kernels in NVIDIA's libraries. Returning from `main`
/// would run the destructors of these libraries beside it, which crashes.
fn leave(exit: Exit) -> ExitCode {
    if device_failure::has_happened() {
        // The error was reported.
        stream::flush();
        signal_hook::low_level::exit(exit as i32);
    }
    exit.into()
}
