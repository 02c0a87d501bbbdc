//! `oomph runs`: a table of runs and the differences of their configs.

use std::{
    cmp::{Ordering, Reverse},
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use clap::{Args, ValueEnum};
use oomph_run_page::RunsPage;
use oomph_runs::{Difference, RunDirectory, RunError, RunSummary, differences};
use oomph_terminal::runs::report;
use serde::Serialize;

use crate::{
    error::CliError,
    exit::Exit,
    notices::Notices,
    numbers::date,
    output::{self, OverwriteArguments},
};

/// The default folder of runs.
const RUNS: &str = "runs";

#[derive(Args, Debug)]
#[command(after_help = "\
`best` and `last` are the loss and accuracy of an evaluation, or the training loss if there is none.
`loss` is the curve of the training loss. `started` is the last start of the run, in UTC.

Examples:
  oomph runs                             all runs in runs/, the newest first
  oomph runs --sort best
  oomph runs --html runs.html            a page with the curves of all runs
  oomph runs runs/resnet runs/resnet-2   two runs, and how their configs differ
  oomph runs runs/sweep-* --sort peak --json")]
pub(crate) struct RunsArguments {
    /// A run directory or a folder of run directories; several paths are compared [default: runs]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Order of the runs, the best first [default: date; the given order for several paths]
    #[arg(long, value_name = "BY", value_enum)]
    sort: Option<Sort>,
    /// Also write the curves, results and config differences of the runs as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    overwrite: OverwriteArguments,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The runs as JSON.
#[derive(Debug, Default, Serialize)]
struct FoundRuns {
    runs: Vec<RunSummary>,
    /// The differences of the configs, with several paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<Vec<Difference>>,
    passed_over: Vec<PassedOver>,
}

/// A directory that is not a run, or a damaged run.
#[derive(Debug, Serialize)]
struct PassedOver {
    path: PathBuf,
    reason: String,
}

pub(crate) fn run(arguments: &RunsArguments) -> Result<Exit, CliError> {
    arguments.overwrite.check(&arguments.html)?;
    let mut found = FoundRuns::default();
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
        arguments.write_page(&found)?;
        output::print_json(&found)?;
        return Ok(Exit::Success);
    }
    for PassedOver { reason, .. } in &found.passed_over {
        Notices::default().warning(format!("skipped: {reason}"));
    }
    if found.runs.is_empty() {
        Notices::default().note("there are no runs; `oomph train` creates one");
        return Ok(Exit::Success);
    }
    output::print(&report(&found.runs, found.differences.as_deref()))?;
    arguments.write_page(&found)?;
    Ok(Exit::Success)
}

impl RunsArguments {
    /// Writes the page that was asked for.
    fn write_page(&self, found: &FoundRuns) -> Result<(), CliError> {
        let Some(path) = &self.html else { return Ok(()) };
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs());
        let page = RunsPage { runs: &found.runs, made: date(now) };
        output::write_file(path, self.overwrite.existing(), |out| oomph_run_page::write(&page, out))?;
        if !self.json {
            Notices::default().line(format!("page: {}", oomph_core::printable(path.display())));
        }
        Ok(())
    }
}

impl FoundRuns {
    /// Adds the run at `path`, or the runs in that folder.
    ///
    /// # Errors
    /// If `path` is not a folder.
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

/// An error with its causes in one line.
fn in_full(error: &RunError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The folders in a folder that are not hidden, sorted by name.
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

/// The order of runs, the best first. Runs without the value come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    // The newest first
    Date,
    // By name
    Name,
    // The lowest evaluation loss first
    Best,
    // The lowest loss of the last evaluation first
    Last,
    // The highest accuracy of the best evaluation first
    Accuracy,
    // The lowest peak first
    Peak,
    // The fastest first
    Speed,
    // The shortest first
    Time,
}

impl Sort {
    fn apply(self, runs: &mut [RunSummary]) {
        match self {
            Self::Name => runs.sort_by(|one, other| one.run_dir.cmp(&other.run_dir)),
            Self::Date => runs.sort_by_key(|run| Reverse(run.started_unix_seconds)),
            Self::Best => by_number(runs, |run| Some(run.best?.eval_loss)),
            Self::Last => by_number(runs, |run| Some(run.last?.eval_loss)),
            Self::Accuracy => by_number(runs, |run| Some(-run.best?.eval_accuracy?)),
            Self::Peak => by_number(runs, |run| Some(run.peak_in_use_bytes?.get() as f64)),
            Self::Speed => by_number(runs, |run| Some(-run.samples_per_second?)),
            Self::Time => by_number(runs, |run| Some(run.seconds)),
        }
    }
}

/// Sorts by a number, the smallest first.
fn by_number(runs: &mut [RunSummary], number: impl Fn(&RunSummary) -> Option<f64>) {
    runs.sort_by(|one, other| match (number(one), number(other)) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
}
