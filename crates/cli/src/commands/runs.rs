//! `oomph runs`: what was trained, side by side.

mod differences;
mod report;
mod sort;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use oomph_trainer::{RunDirectory, RunError, RunSummary};
use serde::Serialize;

use self::{
    differences::{Difference, differences},
    report::report,
    sort::Sort,
};
use crate::{error::CliError, exit::Exit, notices::Notices, output};

/// Where runs go by default.
const RUNS: &str = "runs";

#[derive(Args, Debug)]
#[command(after_help = "\
Best and last are evaluations: loss and accuracy; the training loss where nothing was evaluated.
Dates are of the last start, in universal time.

Examples:
  oomph runs                                     all runs in runs/, the newest first
  oomph runs --sort best
  oomph runs runs/resnet runs/resnet-2           both, and what differs in their configs
  oomph runs runs/sweep-* --sort peak --json")]
pub(crate) struct RunsArguments {
    /// A folder of run directories, or a run directory; several are compared [default: runs]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The order, the best first [default: date, and as named where several are compared]
    #[arg(long, value_name = "BY", value_enum)]
    sort: Option<Sort>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What was found.
#[derive(Debug, Default, Serialize)]
struct Found {
    runs: Vec<RunSummary>,
    /// What of the configurations differs, where several paths are named.
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<Vec<Difference>>,
    passed_over: Vec<PassedOver>,
}

/// A directory that is no run, or a damaged one.
#[derive(Debug, Serialize)]
struct PassedOver {
    path: PathBuf,
    reason: String,
}

pub(crate) fn run(arguments: &RunsArguments) -> Result<Exit, CliError> {
    let mut found = Found::default();
    for path in &arguments.paths {
        found.add(path)?;
    }
    if arguments.paths.is_empty() && Path::new(RUNS).is_dir() {
        found.add(Path::new(RUNS))?;
    }
    let is_comparison = arguments.paths.len() > 1;
    match arguments.sort {
        Some(sort) => sort.apply(&mut found.runs),
        None if !is_comparison => Sort::Date.apply(&mut found.runs),
        None => {}
    }
    if is_comparison {
        found.differences = Some(differences(&found.runs));
    }
    if arguments.json {
        output::print_json(&found)?;
        return Ok(Exit::Success);
    }
    for PassedOver { reason, .. } in &found.passed_over {
        Notices::default().warning(format!("passed over: {reason}"));
    }
    if found.runs.is_empty() {
        Notices::default().note("there are no runs: `oomph train` makes one");
        return Ok(Exit::Success);
    }
    output::print(&report(&found.runs, found.differences.as_deref()))?;
    Ok(Exit::Success)
}

impl Found {
    /// Adds the run at `path`, or those in it.
    ///
    /// # Errors
    /// Where it is no folder.
    fn add(&mut self, path: &Path) -> Result<(), CliError> {
        if RunDirectory::is_run(path) {
            self.read(path);
            return Ok(());
        }
        for folder in folders(path).map_err(|source| CliError::Folder { path: path.to_owned(), source })? {
            self.read(&folder);
        }
        Ok(())
    }

    fn read(&mut self, path: &Path) {
        match RunSummary::read(path) {
            Ok(run) => self.runs.push(run),
            Err(error) => {
                self.passed_over.push(PassedOver { path: path.to_owned(), reason: in_full(&error) });
            }
        }
    }
}

/// The error with what caused it, in one line.
fn in_full(error: &RunError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The folders in a folder, by name, those left out that are hidden.
fn folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && entry.path().is_dir() {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}
