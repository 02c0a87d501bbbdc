//! Compares the idle share of pipelines with (p − 1)/(m + p − 1), the idle share of p equally fast devices and m
//! micro-batches without transfer time. Takes three minutes.
//!
//! ```text
//! cargo xtask pipeline-bubble --save      # 2 to 4 devices, 1 to 16 micro-batches, both schedules
//! cargo xtask pipeline-bubble 5 40        # five runs a row, 40 ms a forward
//! ```
//!
//! The trainings are real, but their stages sleep instead of computing. So two cores suffice for four devices. A row
//! is the median of several runs of one step. The tool fails where a row is more than 20 % off.

mod slow;

use std::process::ExitCode;

use slow::idle_share;

use crate::{
    Outcome,
    measured::{Measured, without_save},
};

/// The largest deviation of a row, as a share of the formula.
const TOLERANCE: f64 = 0.2;

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (arguments, is_saved) = without_save(arguments);
    let runs = arguments.first().map_or(Ok(3), |runs| runs.parse::<usize>())?.max(1);
    let milliseconds = arguments.get(1).map_or(Ok(20.0), |time| time.parse::<f64>())?;
    let mut table = Measured::begin(
        "pipeline-bubble",
        is_saved,
        &["schedule", ">devices", ">micro-batches", ">formula", ">measured", "all runs", ">off"],
    );
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
                table.add(vec![
                    schedule.to_owned(),
                    devices.to_string(),
                    micro_batches.to_string(),
                    format!("{:.1} %", 100.0 * formula),
                    format!("{:.1} %", 100.0 * median),
                    all.join(" "),
                    format!("{:+.1} %", 100.0 * off),
                ]);
            }
        }
    }
    println!("\nat most {:.1} % off", 100.0 * worst);
    table.data.figures.insert("worst_off".into(), format!("{:.1} %", 100.0 * worst));
    table.end("pipeline-bubble")?;
    Ok(if worst <= TOLERANCE { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
