//! `memory.on_oom = "adapt"`: the training goes on in a fresh process, whatever the old one holds or has broken.

use std::{ffi::OsString, os::unix::process::CommandExt, path::Path, process::Command};

use oomph_config::{Config, OnOom, Value};
use oomph_trainer::{Advice, Kept, TrainError};

use super::TrainArguments;
use crate::error::CliError;

/// This program, even where its file was replaced or removed since it was started.
const SELF: &str = "/proc/self/exe";

/// Replaces this process by one that resumes the run with what makes it fit, where that is asked for and something does.
/// What it gives is why that is not so: the error itself, or why no process can be started.
///
/// The id of the process stays, and with it who waits for it and who sends it signals.
pub(super) fn go_on(arguments: &TrainArguments, config: &Config, error: TrainError) -> CliError {
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
    let source = Command::new(SELF).args(again(arguments, &run, &from, advice)).exec();
    CliError::Again { run, error: Box::new(shortage.clone()), source }
}

/// The run's own configuration is resolved, so that flags and settings of this command line are in it already. Values
/// stand behind a `=`, as a path may begin with a dash.
fn again(arguments: &TrainArguments, run: &Path, from: &Path, advice: &Advice) -> Vec<OsString> {
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
