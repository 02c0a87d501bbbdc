//! Compares planned memory with measured memory, over a grid of trainings on the CPU. Takes eight minutes.
//!
//! ```text
//! cargo xtask plan-accuracy --save       # all cases, for docs/reference/planning-accuracy.md
//! cargo xtask plan-accuracy lstm adam    # the cases whose rows contain all words
//! cargo xtask plan-accuracy drift        # features × strategies over several devices alone
//! ```
//!
//! Each case runs in its own process: three steps and an evaluation. The tool fails where the median error is above 2 %,
//! the 95th percentile above 5 %, or an under-prediction above 5 %; over several devices where an error is above 1.5 %.

mod drift;
mod drift_grid;
mod grid;
mod measure;
mod summary;

use std::{
    env,
    error::Error,
    io,
    process::{Command, ExitCode},
};

use grid::Case;
use measure::{Outcome, errors, measure, measure_devices};
use oomph_core::Bytes;
use serde::de::DeserializeOwned;
pub(crate) use summary::Summary;

use crate::{
    Outcome as Ended,
    measured::{Measured, without_save},
};

const COLUMNS: [&str; 11] = [
    "model",
    "data",
    "batch",
    "optimizer",
    "memory",
    ">planned peak",
    ">peak in use",
    ">error",
    ">eval planned",
    ">eval in use",
    ">error",
];

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Ended {
    if let [flag, config] = arguments
        && matches!(&**flag, CASE | drift::CASE)
    {
        let outcome = match &**flag {
            CASE => serde_json::to_string(&measure(config)?)?,
            _ => serde_json::to_string(&measure_devices(config)?)?,
        };
        println!("{outcome}");
        return Ok(ExitCode::SUCCESS);
    }
    let (arguments, is_saved) = without_save(arguments);
    if arguments.first().is_some_and(|word| word == "drift") {
        return ended(drift::run(&arguments[1..], is_saved)?);
    }
    let holds = one_device(&arguments, is_saved)?;
    // Words name cases of the first table.
    let holds_drift = !arguments.is_empty() || drift::run(&[], is_saved)?;
    ended(holds && holds_drift)
}

/// Measures a case of the first table.
const CASE: &str = "--case";

/// Runs this tool again with `flag` and a configuration, and reads the outcome that it prints. Each case has a process of
/// its own, since a backend keeps some memory until its process ends.
fn in_a_process<T: DeserializeOwned>(flag: &str, config: &str) -> io::Result<T> {
    let output = Command::new(env::current_exe()?).args(["plan-accuracy", flag, config]).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn ended(holds: bool) -> Ended {
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The first table: models, batches, optimizers and levers on one device. Whether the errors are in bounds.
fn one_device(words: &[String], is_saved: bool) -> Result<bool, Box<dyn Error>> {
    let cases: Vec<Case> = grid::all().into_iter().filter(|case| is_asked(case, words)).collect();
    let mut table = Measured::begin("plan-accuracy", is_saved, &COLUMNS);
    let mut all = Vec::new();
    let mut failed = 0;
    for case in &cases {
        match in_a_process(CASE, &case.config()) {
            Ok(outcome) => {
                table.add(row(case, &outcome));
                all.extend(errors(&outcome));
            }
            Err(error) => {
                failed += 1;
                println!("| {} | failed: {error} |", case.label().join(" | "));
            }
        }
    }
    let Some(summary) = Summary::of(&all) else { return Err("no case was measured".into()) };
    println!("\n{summary}");
    table.data.figures = summary.figures();
    table.end("plan-accuracy")?;
    let holds = summary.median <= 0.02 && summary.p95 <= 0.05 && summary.worst_under <= 0.05;
    Ok(holds && failed == 0)
}

fn is_asked(case: &Case, words: &[String]) -> bool {
    let label = case.label().join(" ");
    words.iter().all(|word| label.contains(word.as_str()))
}

fn row(case: &Case, outcome: &Outcome) -> Vec<String> {
    let [train, eval] = errors(outcome).map(|error| format!("{:+.1} %", 100.0 * error));
    let bytes = |bytes| Bytes::new(bytes).to_string();
    let training = [bytes(outcome.planned_peak_bytes), bytes(outcome.peak_in_use_bytes), train];
    let evaluation = [bytes(outcome.planned_eval_peak_bytes), bytes(outcome.eval_peak_in_use_bytes), eval];
    case.label().into_iter().chain(training).chain(evaluation).collect()
}
