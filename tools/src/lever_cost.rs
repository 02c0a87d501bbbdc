//! Compares the expected time of smaller micro-batches, as an out-of-memory report states it, with the clock. Takes a
//! minute on an idle machine.
//!
//! ```sh
//! cargo xtask lever-cost --save
//! ```
//!
//! `oomph compare` measures all sizes of a training in one run.

use std::{error::Error, path::Path, process::ExitCode};

use oomph::{Config, Registry};
use oomph_advice::{planning::slowdown, varied};
use oomph_config::{Change, MicroBatch};
use oomph_engine::session::backend;
use oomph_trainer::open_to_plan;

use crate::{
    Outcome,
    measured::{Measured, without_save},
    program,
};

/// A training and its micro-batches; the first is the whole batch.
const CASES: [(&str, &str, [usize; 4]); 4] = [
    (
        "resnet18 width 32, 32×32, batch 64",
        "model = { name = 'resnet18', stem = 'small', width = 32 }
         data = { source = 'synthetic', height = 32, width = 32 }
         train.batch = 64",
        [64, 32, 16, 4],
    ),
    (
        "resnet50 width 16, 64×64, batch 32, adam",
        "model = { name = 'resnet50', width = 16 }
         data = { source = 'synthetic', height = 64, width = 64 }
         optimizer.name = 'adam'
         train.batch = 32",
        [32, 16, 8, 2],
    ),
    (
        "lstm 256, 32 steps, batch 128",
        "model = { name = 'lstm', hidden = 256 }
         data = { source = 'synthetic', kind = 'sequence', steps = 32, features = 64 }
         train.batch = 128",
        [128, 64, 32, 8],
    ),
    (
        "lstm 1024, 8 steps, batch 64, adam",
        "model = { name = 'lstm', hidden = 1024 }
         data = { source = 'synthetic', kind = 'sequence', steps = 8, features = 64 }
         optimizer.name = 'adam'
         train.batch = 64",
        [64, 32, 16, 4],
    ),
];

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (_, is_saved) = without_save(arguments);
    let oomph = program::oomph()?;
    let mut table = Measured::begin(
        "lever-cost",
        is_saved,
        &["training", ">micro-batch", ">expected time", ">measured time"],
    );
    for (name, config, sizes) in CASES {
        let expected = expected(config, sizes)?;
        let measured = measured(&oomph, config, sizes)?;
        for ((size, expected), measured) in sizes.into_iter().zip(expected).zip(measured).skip(1) {
            let percent = |share: f64| format!("{:+.0} %", share * 100.0);
            let row = vec![name.to_owned(), size.to_string(), percent(expected), percent(measured)];
            table.add(row);
        }
    }
    table.end("lever-cost")?;
    Ok(ExitCode::SUCCESS)
}

/// The expected slowdown of each size against the first.
fn expected(config: &str, sizes: [usize; 4]) -> Result<Vec<f64>, Box<dyn Error>> {
    let whole = open_to_plan(Config::from_toml("lever_cost", config)?, &Registry::builtin())?;
    let slowdown = |size: usize| {
        let smaller = varied(&whole, &[Change::MicroBatch(MicroBatch::Samples(size))])?;
        let slowdown = slowdown(&whole, &smaller, backend(&whole));
        slowdown.ok_or_else(|| format!("a micro-batch of {size} cannot be planned").into())
    };
    sizes.into_iter().map(slowdown).collect()
}

/// The measured slowdown of each size against the first.
fn measured(oomph: &Path, config: &str, sizes: [usize; 4]) -> Result<Vec<f64>, Box<dyn Error>> {
    let sizes = sizes.map(|size| size.to_string()).join(",");
    let rows = program::compared(oomph, config, &["--micro-batches", &sizes, "--steps", "12"])?;
    let seconds = rows.iter().map(|row| program::figure(row, "step_seconds"));
    let seconds: Vec<f64> = seconds.collect::<Result<_, _>>()?;
    Ok(seconds.iter().map(|of| of / seconds[0] - 1.0).collect())
}
