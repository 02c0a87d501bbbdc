//! `oomph runs`: a table of runs and the differences of their configs.

mod report;

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use oomph_config::Value;
use oomph_runs::{RunDirectory, RunError, RunSummary};
use serde::Serialize;

use self::report::report;
use crate::{error::CliError, exit::Exit, notices::Notices, output};

/// The default folder of runs.
const RUNS: &str = "runs";
/// Differs in all runs, so it is not compared.
const DIRECTORY: &str = "run.directory";

#[derive(Args, Debug)]
#[command(after_help = "\
`best` and `last` are the loss and accuracy of an evaluation, or the training loss if there is none.
`started` is the last start of the run, in UTC.

Examples:
  oomph runs                                     all runs in runs/, the newest first
  oomph runs --sort best
  oomph runs runs/resnet runs/resnet-2           two runs and the differences of their configs
  oomph runs runs/sweep-* --sort peak --json")]
pub(crate) struct RunsArguments {
    /// A run directory or a folder of run directories; several paths are compared [default: runs]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Order of the runs, the best first [default: date; the given order for several paths]
    #[arg(long, value_name = "BY", value_enum)]
    sort: Option<Sort>,
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
    Ok(Exit::Success)
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

/// A key with different values.
#[derive(Debug, Serialize)]
struct Difference {
    key: String,
    /// Each value with its runs, in the order of the runs.
    values: Vec<ValueRuns>,
}

/// A value with the runs that have it.
#[derive(Debug, Serialize)]
struct ValueRuns {
    /// `None` if the key is not set.
    value: Option<Value>,
    runs: Vec<PathBuf>,
}

/// The keys with different values, sorted by name.
fn differences(runs: &[RunSummary]) -> Vec<Difference> {
    let keys: BTreeSet<&String> = runs.iter().flat_map(|run| run.config.keys()).collect();
    let difference = |key: &String| Difference { key: key.clone(), values: values(runs, key) };
    let all = keys.into_iter().filter(|key| *key != DIRECTORY).map(difference);
    all.filter(|difference| difference.values.len() > 1).collect()
}

fn values(runs: &[RunSummary], key: &str) -> Vec<ValueRuns> {
    let mut values: Vec<ValueRuns> = Vec::new();
    for run in runs {
        let value = run.config.get(key);
        let is_same = |entry: &&mut ValueRuns| match (&entry.value, value) {
            (Some(one), Some(other)) => one.same(other),
            (None, None) => true,
            _ => false,
        };
        match values.iter_mut().find(is_same) {
            Some(entry) => entry.runs.push(run.run_dir.clone()),
            None => values.push(ValueRuns { value: value.cloned(), runs: vec![run.run_dir.clone()] }),
        }
    }
    values
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
