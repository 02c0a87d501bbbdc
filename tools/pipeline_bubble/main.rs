//! Holds the idle share of pipelines against (p − 1)/(m + p − 1), that of p devices that take as long as each other and
//! hand over at once.
//!
//! ```text
//! cargo run --release --example pipeline_bubble              # 2 to 4 devices, 1 to 16 micro-batches, both schedules
//! cargo run --release --example pipeline_bubble -- 5 40      # five runs a row, of 40 ms a forward
//! ```
//!
//! The trainings are real ones; only the stages sleep instead of computing, so that two cores are enough. A row is the
//! median of several runs of a step. The exit code says whether each is within 20 % of the formula.

mod slow;

use std::{env, error::Error, process::ExitCode};

use slow::idle_share;

/// How far a row may be from the formula, as a share of it.
const TOLERANCE: f64 = 0.2;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let runs = arguments.next().map_or(Ok(3), |runs| runs.parse::<usize>())?.max(1);
    let milliseconds = arguments.next().map_or(Ok(20.0), |time| time.parse::<f64>())?;
    println!("| schedule | devices | micro-batches | formula | measured | all runs | off |");
    println!("|---|---:|---:|---:|---:|---|---:|");
    let mut worst = 0.0f64;
    for schedule in ["gpipe", "1f1b"] {
        for devices in 2..=4 {
            for micro_batches in 1..=16 {
                let formula = (devices - 1) as f64 / (micro_batches + devices - 1) as f64;
                let run = |_| idle_share(schedule, devices, micro_batches, milliseconds);
                let mut measured = (0..runs).map(run).collect::<Result<Vec<_>, _>>()?;
                measured.sort_by(f64::total_cmp);
                let median = measured[runs / 2];
                let off = median / formula - 1.0;
                worst = worst.max(off.abs());
                let all: Vec<_> = measured.iter().map(|share| format!("{:.1}", 100.0 * share)).collect();
                println!(
                    "| {schedule} | {devices} | {micro_batches} | {:.1} % | {:.1} % | {} | {:+.1} % |",
                    100.0 * formula,
                    100.0 * median,
                    all.join(" "),
                    100.0 * off,
                );
            }
        }
    }
    println!("\nat most {:.1} % off", 100.0 * worst);
    Ok(if worst <= TOLERANCE { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
