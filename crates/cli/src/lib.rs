//! The commands of oomph.
//!
//! - [`run`]: the whole command line over the models, data sources and tasks of a [`Registry`].
//!
//! ```no_run
//! oomph_memory::install_meter!();
//!
//! fn main() -> std::process::ExitCode {
//!     oomph_cli::run(oomph_trainer::Registry::builtin())
//! }
//! ```
//!
//! Data goes to standard output, everything else to standard error. The exit code is 0 for success, 1 for an error,
//! 2 for a command line that is not understood, and 130 or 143 where SIGINT or SIGTERM ended a training early.
//!
//! It decides nothing about training: it reads arguments, calls the library and shows what that tells.

mod arguments;
mod bug;
mod commands;
mod configuration;
mod echo;
mod embedded;
mod error;
mod exit;
mod failure;
mod notices;
mod numbers;
mod output;
mod probe;
mod progress;
mod ranks;
mod signals;
mod table;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
};

use clap::Parser;
use oomph_trainer::Registry;

use crate::{arguments::Arguments, exit::Exit};

/// Runs the command that this process was started with.
///
/// It is to be the whole of `main`: it takes over the panic hook, and while it trains the signals SIGINT, SIGTERM
/// and SIGUSR1.
pub fn run(registry: Registry) -> ExitCode {
    bug::record_panics();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(answer) => {
            // Help and version come this way too. Where nobody reads there is nobody to tell.
            ranks::once(|| drop(answer.print()));
            return u8::try_from(answer.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let json = arguments.command.json();
    // The registry is not looked at again after a panic.
    let result = catch_unwind(AssertUnwindSafe(|| commands::run(&arguments.command, &registry)));
    match result {
        Ok(Ok(exit)) => exit.into(),
        // The reader of our output has gone, as `head` does: it has what it wanted.
        Ok(Err(error)) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            let report = || failure::report(&error, error.hint(), error.out_of_memory(), json);
            if error.is_of_all_ranks() {
                ranks::once(report)
            } else {
                report()
            }
            error.exit().into()
        }
        Err(_) => {
            let bug = bug::last_panic();
            failure::report(&bug, Some(bug.hint()), None, json);
            bug.show_backtrace();
            Exit::Failure.into()
        }
    }
}
