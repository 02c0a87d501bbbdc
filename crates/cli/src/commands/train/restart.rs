//! `memory.on_oom = "adapt"`: continues a training in a new process, free of the old one's memory.

use std::{ffi::OsString, io, path::Path, process::Command};

use oomph_advice::out_of_memory::{Advice, Kept};
use oomph_config::{Config, OnOom, Value};
use oomph_core::system::{replace_process, this_program};
use oomph_trainer::TrainError;

use super::arguments::TrainArguments;
use crate::error::CliError;

/// Replaces this process by one that resumes the run with settings that fit.
///
/// Returns only on failure: the error itself if the config forbids adapting or no settings fit, else why the process
/// cannot start. The process id stays, so parents and signals still find the training; on Windows this
/// process waits for the new one.
pub(super) fn restart(arguments: &TrainArguments, config: &Config, error: TrainError) -> CliError {
    let Some(shortage) = error.out_of_memory() else { return error.into() };
    let report = shortage.report.as_ref();
    let run = report.and_then(|report| report.run_dir.clone());
    let from = report.and_then(|report| match report.kept.as_ref()? {
        Kept::LastStep { checkpoint, .. } | Kept::Before { checkpoint, .. } => Some(checkpoint.clone()),
        Kept::Nothing { .. } => None,
    });
    let advice = shortage.goes_on_with().filter(|_| config.memory.on_oom == OnOom::Adapt);
    let (Some(run), Some(advice)) = (run, advice) else { return error.into() };
    let from = from.unwrap_or_else(|| run.clone());
    let source = start(&command_line(arguments, &run, &from, advice));
    CliError::Restart { run, error: Box::new(shortage.clone()), source }
}

/// Starts this program in the place of this process. Returns only where that fails.
fn start(arguments: &[OsString]) -> io::Error {
    let mut command = Command::new(this_program());
    command.args(arguments);
    replace_process(command)
}

/// The command line of the new process.
///
/// The run's own config is resolved, so it contains the flags and settings of this command line. Values follow a `=`,
/// since a path may begin with a dash.
fn command_line(arguments: &TrainArguments, run: &Path, from: &Path, advice: &Advice) -> Vec<OsString> {
    let with = |flag: &str, path: &Path| {
        let mut argument = OsString::from(flag);
        argument.push(path);
        argument
    };
    let directory = Value::from(run.to_string_lossy().into_owned());
    let mut given: Vec<OsString> = vec![
        "train".into(),
        with("--resume=", from),
        with("--config=", &run.join("config.toml")),
        format!("--set=run.directory={directory}").into(),
    ];
    given.extend(advice.flags().into_iter().map(OsString::from));
    let flags = [
        ("--json", arguments.json),
        ("--quiet", arguments.quiet),
        ("--no-plan-check", arguments.no_plan_check),
    ];
    given.extend(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.into()));
    given
}
