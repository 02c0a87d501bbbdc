//! Compares planned memory with what the simulated driver gives and the pools hold, over a grid of trainings.
//!
//! ```text
//! cargo xtask gpu pages --save                   # all trainings
//! cargo xtask gpu pages --only "LSTM bf16"       # those whose rows contain all words
//! cargo xtask gpu --oomph PATH pages --jobs 1    # with a binary that is built already, one training at a time
//! ```
//!
//! Each training of the [`grid`] runs twice on a card that counts launches: three steps and an evaluation, whose highest
//! allocation the driver reports, and a profile, which reads the pools where stages and phases end. The plan is that of
//! this tree. Measurements of a program are kept in `target/gpu/pages`, so after a change of the planner's rules a run takes
//! seconds. The tool fails where a median error is above 1 %, an under-prediction above 3 %, or a training fails.

pub(super) mod cell;
pub(super) mod grid;
pub(crate) mod profile;

use std::{
    collections::BTreeMap,
    error::Error,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use cell::Outcome;
use grid::Cell;
use profile::COMPARED;

use super::Simulation;
use crate::{
    Outcome as Ended,
    measured::{Measured, without_save},
    plan_accuracy::Summary,
};

const LABELS: [&str; 4] = ["model", "card", "training", ">batch"];

const GROUPS: [&str; 10] = [
    "trainings",
    ">number",
    ">reserved: median error",
    ">95th percentile",
    ">too low",
    ">too high",
    ">in use: median error",
    ">95th percentile",
    ">too low",
    ">too high",
];

/// The outcomes of the grid.
struct Found<'a> {
    cell: &'a Cell,
    outcome: Outcome,
}

/// Runs the tool.
pub(super) fn run(simulation: &Simulation, arguments: &[String]) -> Ended {
    let (arguments, is_saved) = without_save(arguments);
    let (only, jobs) = super::read_jobs(&arguments)?;
    let is_asked = |cell: &Cell| {
        let label = cell.label().join(" ");
        only.split_whitespace().all(|word| label.contains(word))
    };
    let cells: Vec<Cell> = grid::all().into_iter().filter(is_asked).collect();
    let rows = Mutex::new(Measured::begin("gpu pages", is_saved, &[&LABELS[..], &COMPARED].concat()));
    let found = in_parallel(simulation, &cells, jobs, &rows);
    rows.into_inner().unwrap_or_else(PoisonError::into_inner).end("gpu-pages")?;
    println!();
    let mut groups = Measured::begin("gpu pages", is_saved, &GROUPS);
    for (name, members) in grouped(&found) {
        groups.add(group(&name, &members)?);
    }
    let all: Vec<&Found<'_>> = found.iter().collect();
    let [reserved, in_use] = summaries(&all)?;
    for (prefix, summary) in [("reserved", &reserved), ("in_use", &in_use)] {
        let figures = summary.figures().into_iter().map(|(name, value)| (format!("{prefix}_{name}"), value));
        groups.data.figures.extend(figures);
    }
    groups.end("gpu-pages-groups")?;
    let failed = cells.len() - found.len();
    eprintln!("{failed} of {} trainings failed", cells.len());
    let holds = [reserved, in_use].iter().all(|one| one.median <= 0.01 && one.worst_under <= 0.03);
    Ok(if holds && failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures all cells, and adds a row for each. Cells that fail are printed and left out.
fn in_parallel<'a>(
    simulation: &Simulation,
    cells: &'a [Cell],
    jobs: usize,
    rows: &Mutex<Measured>,
) -> Vec<Found<'a>> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Relaxed)) {
                    match cell.compare(simulation) {
                        Ok(outcome) => {
                            rows.lock().unwrap_or_else(PoisonError::into_inner).add(row(cell, &outcome));
                            found
                                .lock()
                                .unwrap_or_else(PoisonError::into_inner)
                                .push(Found { cell, outcome });
                        }
                        Err(error) => eprintln!("{}: {error}", cell.label().join(", ")),
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn row(cell: &Cell, outcome: &Outcome) -> Vec<String> {
    let figures = outcome.reserved.cells().into_iter().chain(outcome.in_use.cells());
    cell.label().into_iter().chain(figures).collect()
}

/// All outcomes, and those of each model, card and lever.
fn grouped<'a, 'b>(found: &'b [Found<'a>]) -> Vec<(String, Vec<&'b Found<'a>>)> {
    let mut groups = vec![("all".to_owned(), found.iter().collect::<Vec<_>>())];
    for index in 0..3 {
        let mut members: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for one in found {
            members.entry(one.cell.label()[index].clone()).or_default().push(one);
        }
        groups.extend(members);
    }
    groups
}

fn group(name: &str, members: &[&Found<'_>]) -> Result<Vec<String>, Box<dyn Error>> {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let cells = |one: &Summary| [one.median, one.p95, one.worst_under, one.worst_over].map(percent);
    let figures = summaries(members)?.iter().flat_map(cells).collect::<Vec<_>>();
    Ok([name.to_owned(), members.len().to_string()].into_iter().chain(figures).collect())
}

/// The errors of reserved bytes and of bytes in use.
fn summaries(members: &[&Found<'_>]) -> Result<[Summary; 2], &'static str> {
    let of = |which: fn(&Outcome) -> profile::Compared| {
        let errors: Vec<f64> = members.iter().map(|one| which(&one.outcome).error()).collect();
        Summary::of(&errors).ok_or("no training was measured")
    };
    Ok([of(|outcome| outcome.reserved)?, of(|outcome| outcome.in_use)?])
}
