//! Holds planned memory against measured memory, over a grid of trainings on the CPU.
//!
//! ```text
//! cargo run --release --example plan_accuracy                # all, as a table for docs/planning.md
//! cargo run --release --example plan_accuracy -- lstm adam   # the cases that all words are in
//! ```
//!
//! Each case runs in a process of its own: three steps and an evaluation. The exit code says whether the promise is
//! kept: a median error of at most 2 %, a 95th percentile of at most 5 %, and nothing under-predicted by more.

mod grid;
mod measure;

use std::{
    env, io,
    process::{Command, ExitCode},
};

use grid::Case;
use measure::{Outcome, errors, measure};
use oomph_core::Bytes;

oomph_memory::install_meter!();

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, config] = arguments.as_slice()
        && flag == "--case"
    {
        return child(config);
    }
    let cases: Vec<Case> = grid::all().into_iter().filter(|case| is_asked(case, &arguments)).collect();
    println!(
        "| model | data | batch | optimizer | memory | planned peak | peak in use | error | eval planned | eval in use | error |"
    );
    println!("|---|---|---|---|---|---:|---:|---:|---:|---:|---:|");
    let mut all = Vec::new();
    let mut failed = 0;
    for case in &cases {
        match run(case) {
            Ok(outcome) => {
                println!("{}", row(case, &outcome));
                all.extend(errors(&outcome));
            }
            Err(error) => {
                failed += 1;
                println!("| {} | failed: {error} |", case.label().join(" | "));
            }
        }
    }
    if summarize(&all) && failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_asked(case: &Case, words: &[String]) -> bool {
    let label = case.label().join(" ");
    words.iter().all(|word| label.contains(word.as_str()))
}

fn child(config: &str) -> ExitCode {
    match measure(config) {
        Ok(outcome) => {
            println!("{}", serde_json::to_string(&outcome).expect("numbers are JSON"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(case: &Case) -> io::Result<Outcome> {
    let output = Command::new(env::current_exe()?).args(["--case", &case.config()]).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn row(case: &Case, outcome: &Outcome) -> String {
    let [train, eval] = errors(outcome);
    format!(
        "| {} | {} | {} | {:+.1} % | {} | {} | {:+.1} % |",
        case.label().join(" | "),
        Bytes::new(outcome.planned_peak_bytes),
        Bytes::new(outcome.peak_in_use_bytes),
        100.0 * train,
        Bytes::new(outcome.planned_eval_peak_bytes),
        Bytes::new(outcome.eval_peak_in_use_bytes),
        100.0 * eval,
    )
}

/// Prints what the errors come to; whether that keeps the promise.
fn summarize(errors: &[f64]) -> bool {
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let at =
        |share: f64| sizes.get(((sizes.len() as f64 * share) as usize).min(sizes.len().saturating_sub(1)));
    let (Some(median), Some(tail)) = (at(0.5), at(0.95)) else { return false };
    let under = errors.iter().copied().fold(0.0, f64::min);
    println!();
    println!(
        "{} predictions: median error {:.2} %, 95th percentile {:.2} %, worst under-prediction {:.2} %",
        errors.len(),
        100.0 * median,
        100.0 * tail,
        -100.0 * under
    );
    *median <= 0.02 && *tail <= 0.05 && under >= -0.05
}
