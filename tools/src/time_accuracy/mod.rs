//! Compares planned step times with the clock: for each training the plan by this machine's calibration, and the median step.
//! Takes a quarter of an hour on an idle machine.
//!
//! ```sh
//! cargo xtask time-accuracy --save
//! ```
//!
//! It also compares the order: of two trainings of one model and batch whose steps differ by more than 10 %, the plan should
//! name the faster one.
//!
//! All trainings run in turn, and then all once more. The faster run of a training counts: what else runs on a machine, or on the host of a
//! virtual one, makes a training slower, never faster. So does the calibration, which keeps its fastest runs.

mod cases;

use std::{error::Error, path::Path, process::ExitCode};

use self::cases::{Case, GROUPS, Group};
use crate::{
    Outcome,
    measured::{Measured, without_save},
    program,
};

/// Steps of each training.
const STEPS: &str = "16";

/// Runs of each training.
const ROUNDS: usize = 2;

/// A difference below this share is noise.
const DIFFERENT: f64 = 0.1;

/// The seconds of a step.
struct Timed {
    /// The model and the batch.
    training: (&'static str, usize),
    planned: f64,
    measured: f64,
}

impl Timed {
    fn error(&self) -> f64 {
        self.planned / self.measured - 1.0
    }
}

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (words, is_saved) = without_save(arguments);
    let oomph = program::oomph()?;
    program::calibrate(&oomph)?;
    let mut table = Measured::begin(
        "time-accuracy",
        is_saved,
        &["training", ">batch", "settings", ">planned step, ms", ">measured step, ms", ">error"],
    );
    let cases = GROUPS.iter().flat_map(|group| group.cases.iter().map(move |case| (group, case)));
    let cases: Vec<(&Group, &Case)> = cases
        .filter(|(group, case)| {
            let name = format!("{} {}", group.name, case.settings());
            words.is_empty() || words.iter().any(|word| name.contains(word.as_str()))
        })
        .collect();
    let mut rounds = Vec::new();
    for round in 1..=ROUNDS {
        println!("round {round} of {ROUNDS}");
        let timed = cases.iter().map(|(group, case)| timed(&oomph, group, case));
        rounds.push(timed.collect::<Result<Vec<Timed>, _>>()?);
    }
    let faster = |one: Timed, other: Timed| if other.measured < one.measured { other } else { one };
    let all = rounds
        .into_iter()
        .reduce(|one, other| one.into_iter().zip(other).map(|(one, other)| faster(one, other)).collect());
    let all = all.unwrap_or_default();
    for ((group, case), timed) in cases.iter().zip(&all) {
        let milliseconds = |seconds: f64| format!("{:.1}", seconds * 1e3);
        table.add(vec![
            group.name.to_owned(),
            case.batch.to_string(),
            case.settings(),
            milliseconds(timed.planned),
            milliseconds(timed.measured),
            format!("{:+.0} %", timed.error() * 100.0),
        ]);
    }
    summarise(&mut table, &all);
    table.end("time-accuracy")?;
    Ok(ExitCode::SUCCESS)
}

/// Plans and measures a training in a process of its own.
fn timed(oomph: &Path, group: &Group, case: &Case) -> Result<Timed, Box<dyn Error>> {
    let batch = case.batch.to_string();
    let rows =
        program::compared(oomph, &case.config(group.config), &["--batches", &batch, "--steps", STEPS])?;
    let row = rows.first().ok_or("`oomph compare` has no row")?;
    Ok(Timed {
        training: (group.name, case.batch),
        planned: program::figure(row, "planned_step_seconds")?,
        measured: program::figure(row, "step_seconds")?,
    })
}

fn summarise(table: &mut Measured, all: &[Timed]) {
    let mut errors: Vec<f64> = all.iter().map(|timed| timed.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    let percentile = |share: f64| {
        let index = (errors.len() as f64 * share) as usize;
        errors.get(index.min(errors.len().saturating_sub(1))).copied().unwrap_or_default()
    };
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let pairs = pairs(all);
    let right = pairs.iter().filter(|is_right| **is_right).count();
    let figures = [
        ("trainings", all.len().to_string()),
        ("median", percent(percentile(0.5))),
        ("p90", percent(percentile(0.9))),
        ("pairs", pairs.len().to_string()),
        ("right", right.to_string()),
    ];
    for (name, figure) in figures {
        println!("{name}: {figure}");
        table.data.figures.insert(name.to_owned(), figure);
    }
}

/// For each two trainings of one model and batch whose steps differ: whether the plan names the faster one.
fn pairs(all: &[Timed]) -> Vec<bool> {
    let mut pairs = Vec::new();
    for (index, one) in all.iter().enumerate() {
        for other in all[..index].iter().filter(|other| other.training == one.training) {
            let ratio = one.measured / other.measured;
            if ratio.max(1.0 / ratio) > 1.0 + DIFFERENT {
                pairs.push((one.planned < other.planned) == (one.measured < other.measured));
            }
        }
    }
    pairs
}
