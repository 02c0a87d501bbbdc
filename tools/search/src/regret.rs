//! How close 100 trials come to the best value, beside Optuna.

use std::{collections::BTreeMap, fs, path::Path};

use oomph_core::{Generator, Key};
use oomph_search::{Draw, Sampler, Tpe, Trial, TrialState};
use oomph_tree::measured::Measured;
use serde::Deserialize;

use crate::{
    Error,
    problem::Problem,
    statistics::{holm, mann_whitney, median},
    virtual_time::Workers,
};

const TRIALS: usize = 100;
const WORKERS: [usize; 2] = [1, 8];
/// Below this, corrected after Holm within a number of workers, a difference counts.
const SIGNIFICANT: f64 = 0.01;

/// A line of `tools/search/regret.py`.
#[derive(Deserialize)]
struct Line {
    problem: String,
    workers: usize,
    seed: u64,
    best: f64,
}

/// Regrets of one problem and number of workers.
struct Row {
    problem: String,
    workers: usize,
    ours: Vec<f64>,
    optunas: Vec<f64>,
}

/// Searches all problems with as many seeds as Optuna did, and compares.
///
/// # Errors
///
/// If `folder` lacks what `regret.py` writes, or the table cannot be saved.
pub fn run(folder: &Path, is_saved: bool) -> Result<(), Error> {
    let optunas = optunas(folder)?;
    let problems = Problem::all(folder)?;
    let mut table = Measured::begin(
        "",
        is_saved,
        &["problem", ">workers", ">median regret", ">of Optuna", ">p, Holm", "oomph is"],
    );
    table.data.command =
        "cargo run --release -p oomph-search-tools -- regret target/regret --save".to_owned();
    for workers in WORKERS {
        let row = |problem: &Problem| -> Result<Row, Error> {
            let name = &problem.name;
            let known = optunas.get(&(name.clone(), workers));
            let known =
                known.ok_or_else(|| format!("no line of Optuna for `{name}` and {workers} workers"))?;
            let ours = known.keys().map(|seed| problem.regret(best_of(problem, workers, *seed)));
            let optunas = known.values().map(|best| problem.regret(*best));
            Ok(Row { problem: name.clone(), workers, ours: ours.collect(), optunas: optunas.collect() })
        };
        let rows = problems.iter().map(row).collect::<Result<Vec<_>, Error>>()?;
        add(&rows, workers, &mut table);
    }
    table.end("search-regret")?;
    Ok(())
}

fn add(rows: &[Row], workers: usize, table: &mut Measured) {
    let p = holm(&rows.iter().map(|row| mann_whitney(&row.ours, &row.optunas)).collect::<Vec<_>>());
    let [mut no_worse, mut worse, mut better] = [0; 3];
    for (row, p) in rows.iter().zip(p) {
        let [ours, optunas] = [median(&row.ours), median(&row.optunas)];
        no_worse += usize::from(ours <= optunas);
        let verdict = match p < SIGNIFICANT {
            true if ours > optunas => {
                worse += 1;
                "worse"
            }
            true => {
                better += 1;
                "better"
            }
            false => "as good",
        };
        let number = |value: f64| format!("{value:.4}");
        let short = |value: f64| if value < 1e-3 { format!("{value:.2e}") } else { number(value) };
        let cells =
            [row.problem.clone(), row.workers.to_string(), short(ours), short(optunas), format!("{p:.3}")];
        table.add(cells.into_iter().chain([verdict.to_owned()]).collect());
    }
    let figures =
        [("median-no-worse", no_worse), ("worse", worse), ("better", better), ("problems", rows.len())];
    for (name, count) in figures {
        table.data.figures.insert(format!("{name}-{workers}"), count.to_string());
    }
    eprintln!(
        "{workers} workers: median no worse on {no_worse} of {}, significantly worse on {worse}, better on {better}",
        rows.len()
    );
}

/// The best value of each seed, by problem and workers.
type Bests = BTreeMap<(String, usize), BTreeMap<u64, f64>>;

/// The best values that Optuna found.
fn optunas(folder: &Path) -> Result<Bests, Error> {
    let mut all = Bests::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|it| it != "jsonl") {
            continue;
        }
        for line in oomph_core::read_text(&path)?.lines() {
            let line: Line =
                serde_json::from_str(line).map_err(|error| format!("`{}`: {error}", path.display()))?;
            all.entry((line.problem, line.workers)).or_default().insert(line.seed, line.best);
        }
    }
    Ok(all)
}

/// The best value, where workers run trials of a random length side by side: each sees those that run.
fn best_of(problem: &Problem, workers: usize, seed: u64) -> f64 {
    let mut lengths = Generator::at(Key::new(seed).with_name("lengths"));
    let mut trials: Vec<Trial> = Vec::new();
    let mut workers = Workers::new(workers);
    loop {
        if workers.has_free() && trials.len() < TRIALS {
            let draw = Draw { seed, number: trials.len(), round: 0 };
            // A TPE always proposes a point.
            let mut points = Tpe::default().propose(&problem.space, &trials, problem.direction, draw);
            trials.push(Trial::new(trials.len(), points.swap_remove(0)));
            workers.begin(f64::from(lengths.uniform_in(0.5, 1.5)), trials.len() - 1);
        } else if let Some(number) = workers.end() {
            let trial = &mut trials[number];
            trial.value = Some(problem.value(&trial.point));
            trial.state = TrialState::Complete;
        } else {
            let values = trials.iter().filter_map(|trial| trial.value);
            return values
                .min_by(|a, b| problem.regret(*a).total_cmp(&problem.regret(*b)))
                .unwrap_or(f64::NAN);
        }
    }
}
