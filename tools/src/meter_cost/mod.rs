//! Measures the processor time of training with the system's allocator, with the meter, and with recording. Seven rounds
//! take two minutes.
//!
//! ```text
//! cargo xtask meter-cost --save 7
//! ```
//!
//! A round runs each of the three in its own process. The table has the median ratios of the rounds. It counts the
//! processor time of all threads, since wall time depends on other programs too.

mod work;

use std::{env, error::Error, path::Path, process::Command, process::ExitCode};

use crate::{
    Outcome,
    measured::{Measured, median, without_save},
    program,
};

const STEPS: &str = "30";

/// Runs the tool; as `MODE MODEL`, one training.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let [mode, model] = arguments
        && ["metered", "recording"].contains(&mode.as_str())
    {
        if mode == "recording" {
            oomph_memory::record::start(100_000);
        }
        println!("{}", work::work(model, STEPS.parse()?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let (arguments, is_saved) = without_save(arguments);
    let rounds = arguments.first().map_or(Ok(7), |text| text.parse::<usize>())?.max(1);
    let (plain, own) = (program::built("oomph-tools", "meter_cost_plain")?, env::current_exe()?);
    let mut table =
        Measured::begin("meter-cost", is_saved, &["training", ">metered", ">recording", ">rounds"]);
    for model in ["resnet", "lstm"] {
        let mut ratios = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            let plain = seconds(&plain, &[model, STEPS])?;
            for (mode, ratios) in ["metered", "recording"].into_iter().zip(&mut ratios) {
                ratios.push(seconds(&own, &["meter-cost", mode, model])? / plain);
            }
        }
        let [metered, recording] = ratios.map(|ratios| format!("{:+.2} %", 100.0 * (median(ratios) - 1.0)));
        table.data.figures.insert(format!("{model}_metered"), metered.clone());
        table.data.figures.insert(format!("{model}_recording"), recording.clone());
        table.add(vec![model.to_owned(), metered, recording, rounds.to_string()]);
    }
    table.end("meter-cost")?;
    Ok(ExitCode::SUCCESS)
}

fn seconds(program: &Path, arguments: &[&str]) -> Result<f64, Box<dyn Error>> {
    let output = Command::new(program).args(arguments).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned().into())
}
