//! `memory.on_oom = "adapt"`: the training goes on in a fresh process, whatever the old one holds or has broken.

use std::{ffi::OsString, os::unix::process::CommandExt, path::Path, process::Command};

use oomph_config::{Config, OnOom, Value};
use oomph_trainer::{Advice, OutOfMemory, TrainError};

use super::TrainArguments;
use crate::error::CliError;

/// Replaces this process by one that resumes the run with what makes it fit, where that is asked for and something does.
/// What it gives is why that is not so: the error itself, or why no process can be started.
///
/// The id of the process stays, and with it who waits for it and who sends it signals.
pub(super) fn go_on(arguments: &TrainArguments, config: &Config, error: Box<OutOfMemory>) -> CliError {
    let run = error.report.as_ref().and_then(|report| report.run_dir.clone());
    let advice = error.goes_on_with().filter(|_| config.memory.on_oom == OnOom::Adapt);
    let (Some(run), Some(advice)) = (run, advice) else { return TrainError::OutOfMemory(error).into() };
    match std::env::current_exe() {
        Ok(program) => {
            let started = Command::new(program).args(again(arguments, &run, advice)).exec();
            CliError::Again { run, source: started }
        }
        Err(source) => CliError::Again { run, source },
    }
}

/// The run's own configuration is resolved, so that flags and settings of this command line are in it already.
fn again(arguments: &TrainArguments, run: &Path, advice: &Advice) -> Vec<OsString> {
    let mut resume = OsString::from("--resume=");
    resume.push(run);
    let mut given = vec!["train".into(), resume, "--config".into(), run.join("config.toml").into_os_string()];
    let directory = Value::from(run.to_string_lossy().into_owned());
    given.extend(["--set".into(), format!("run.directory={directory}").into()]);
    given.extend(advice.flags().into_iter().map(OsString::from));
    let flags = [
        ("--json", arguments.json),
        ("--quiet", arguments.quiet),
        ("--no-plan-check", arguments.no_plan_check),
    ];
    given.extend(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.into()));
    given
}
