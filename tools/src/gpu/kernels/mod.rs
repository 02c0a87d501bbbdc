//! Compiles every kernel that the configs, precisions and levers ask for, for several cards and two versions of CUDA.
//!
//! ```text
//! cargo xtask gpu kernels --save                                  # all cards and compilers
//! cargo xtask gpu --cards T4,H100 --toolkit 12 kernels --only lstm   # a part
//! cargo xtask gpu --oomph PATH kernels                            # with a binary that is built already
//! ```
//!
//! Burn compiles a kernel when it is first launched, so [`grid`] lists trainings; each trains a step and evaluates on
//! simulated cards that only count launches. The simulated driver keeps the PTX of every module, and the messages about
//! every kernel that NVRTC does not compile. `ptxas` then assembles each PTX for its card: it may take no more registers
//! and shared memory than the card has. The tool fails if a training fails, a kernel does not compile or assemble, a
//! limit is broken, or the driver refused a module or a launch.

mod cell;
mod grid;

use std::{
    error::Error,
    path::Path,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use cell::{Cell, Findings};
use grid::Training;
use oomph_cuda_sim::card;
use oomph_tree::Tree;

use super::{Options, Setup, read_jobs, toolkit::TOOLKITS};
use crate::{
    Outcome,
    measured::{Measured, without_save},
};

/// A card of each architecture that is sold, from compute capability 7.5 to 12.0.
const CARDS: &str = "T4,A100,RTX 3060,RTX 4090,H100,B200,RTX 5090";

const TITLES: [&str; 10] = [
    "card",
    "architecture",
    "CUDA",
    ">trainings",
    ">kernels",
    ">not compiled",
    ">over a limit",
    ">most registers",
    ">kernels that spill",
    ">most shared memory, KiB",
];

/// Runs the tool.
pub(super) fn run(options: &Options<'_>, arguments: &[String]) -> Outcome {
    let (arguments, is_saved) = without_save(arguments);
    let (only, jobs) = read_jobs(&arguments)?;
    let (mut cards_given, mut faults) = (None, "");
    for (variable, value) in &options.variables {
        match *variable {
            "CUDA_SIM_CARDS" => cards_given = Some(*value),
            // To see that the tool notices a failure.
            "CUDA_SIM_FAULTS" => faults = value,
            _ => return Err(format!("`kernels` sets {variable} itself").into()),
        }
    }
    let find = |name: &str| card::find(name).ok_or_else(|| format!("`--cards`: no card is called `{name}`"));
    let cards = cards_given.unwrap_or(CARDS).split(',').map(find).collect::<Result<Vec<_>, _>>()?;
    let mut trainings = grid::all(&configs()?);
    trainings.retain(|training| training.label().contains(&only));
    let setup = Setup::new(options.oomph)?;
    let mut cells = Vec::new();
    for toolkit in
        TOOLKITS.iter().filter(|one| options.toolkit.is_none_or(|wanted| wanted.major == one.major))
    {
        for card in &cards {
            cells.push(Cell { card, toolkit, simulation: setup.with(toolkit)?, faults });
        }
    }
    let found = in_parallel(&cells, &trainings, jobs)?;
    let tool = tool(cards_given, options.toolkit.map(|toolkit| toolkit.major), &only);
    let mut table = Measured::begin(&tool, is_saved, &TITLES);
    found.iter().for_each(|findings| table.add(findings.row()));
    let all = |number: fn(&Findings) -> usize| found.iter().map(number).sum::<usize>();
    let problems = all(|findings| findings.problems.len());
    for (name, number) in [
        ("kernels", all(|findings| findings.kernels)),
        ("not-compiled", all(|findings| findings.not_compiled)),
        ("trainings", trainings.len()),
    ] {
        table.data.figures.insert(name.to_owned(), grouped(number));
    }
    table.end("gpu-kernels")?;
    eprintln!("{problems} problems");
    Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What repeats the run, for the line below the table.
fn tool(cards: Option<&str>, toolkit: Option<&str>, only: &str) -> String {
    let given = |option: &str, value: Option<&str>| {
        value.map_or_else(String::new, |value| format!(" {option} \"{value}\""))
    };
    let only = Some(only).filter(|only| !only.is_empty());
    format!("gpu{}{} kernels{}", given("--cards", cards), given("--toolkit", toolkit), given("--only", only))
}

/// The names of the files in `configs/`, in order.
fn configs() -> Result<Vec<String>, Box<dyn Error>> {
    let name = |path: String| Some(Path::new(&path).file_stem()?.to_str()?.to_owned());
    let mut names: Vec<_> =
        Tree::own().files("configs", ".toml").into_iter().filter_map(|(path, _)| name(path)).collect();
    names.sort();
    if names.is_empty() { Err("`configs/` is empty".into()) } else { Ok(names) }
}

/// What is found in each cell, in their order. Problems are printed as they are found.
fn in_parallel(
    cells: &[Cell<'_>],
    trainings: &[Training],
    jobs: usize,
) -> Result<Vec<Findings>, Box<dyn Error>> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Relaxed);
                    let Some(cell) = cells.get(index) else { break };
                    let findings = cell.run(trainings).map_err(|error| error.to_string());
                    found.lock().unwrap_or_else(PoisonError::into_inner).push((index, findings));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(index, _)| *index);
    Ok(found.into_iter().map(|(_, findings)| findings).collect::<Result<_, _>>()?)
}

/// `12,345`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
