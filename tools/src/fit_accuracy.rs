//! Compares the choice of `memory.fit = "auto"` with an exhaustive search by measurement: three models under eight limits each. Takes
//! half an hour on an idle machine.
//!
//! ```sh
//! cargo xtask fit-accuracy --save
//! ```
//!
//! Every combination of a grid is trained twice, and so is every choice. The faster training of both counts: what else runs on a
//! machine makes a training slower, never faster. The best of a limit is the fastest training of all whose measured peak is within it.

use std::{error::Error, path::Path, process::ExitCode};

use oomph_core::Bytes;

use crate::{
    Outcome,
    measured::{Measured, without_save},
    program,
};

/// The name, the configuration, the batch, and the micro-batches of the grid.
const MODELS: [(&str, &str, &str, [&str; 6]); 3] = [
    (
        "resnet18 width 32, 32×32, adamw",
        "model = { name = 'resnet18', stem = 'small', width = 32 }
         data = { source = 'synthetic', height = 32, width = 32 }
         optimizer = { name = 'adamw' }",
        "64",
        ["64", "32", "22", "16", "8", "4"],
    ),
    (
        "resnet50, 96×96, sgd momentum",
        "model = { name = 'resnet50' }
         data = { source = 'synthetic', height = 96, width = 96 }
         optimizer = { name = 'sgd', momentum = 0.9 }",
        "16",
        ["16", "8", "6", "4", "2", "1"],
    ),
    (
        "lstm 256 × 2, 32 steps, sgd momentum",
        "model = { name = 'lstm', hidden = 256, layers = 2 }
         data = { source = 'synthetic', kind = 'sequence', steps = 32, features = 64 }
         optimizer = { name = 'sgd', momentum = 0.9 }",
        "128",
        ["128", "64", "43", "32", "16", "8"],
    ),
];

const LIMITS: usize = 8;
/// Steps of each training.
const STEPS: &str = "12";
/// Trainings of each combination.
const RUNS: usize = 2;

/// A measured training.
#[derive(Clone, Copy)]
struct Trained {
    peak_bytes: u64,
    seconds: f64,
}

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (_, is_saved) = without_save(arguments);
    let oomph = program::oomph()?;
    program::calibrate(&oomph)?;
    let mut table = Measured::begin(
        "fit-accuracy",
        is_saved,
        &["model", ">limit", ">peak in use", ">step, ms", ">best step, ms", ">more time"],
    );
    let mut excess: Vec<f64> = Vec::new();
    for (name, config, batch, sizes) in MODELS {
        let mut grid = Vec::new();
        for size in sizes {
            for recompute in ["none", "stages"] {
                for gradients in ["keep", "release"] {
                    let memory =
                        format!("micro_batch = {size}, recompute = '{recompute}', gradients = '{gradients}'");
                    grid.push(trained(&oomph, config, batch, &memory)?);
                }
            }
        }
        let most = grid[0].peak_bytes as f64;
        let least = grid.iter().map(|it| it.peak_bytes).min().unwrap_or_default() as f64 * 1.012;
        let limit = |index: usize| (least * (most / least).powf(index as f64 / (LIMITS - 1) as f64)) as u64;
        let limits: Vec<u64> = (0..LIMITS).map(limit).collect();
        let fit = |limit: &u64| trained(&oomph, config, batch, &format!("fit = 'auto', limit = {limit}"));
        let chosen: Vec<Trained> = limits.iter().map(fit).collect::<Result<_, _>>()?;
        for (limit, own) in limits.iter().zip(&chosen) {
            let rivals = grid.iter().chain(&chosen).filter(|it| it.peak_bytes <= *limit);
            let best = rivals.map(|it| it.seconds).fold(f64::INFINITY, f64::min);
            let more = own.seconds / best - 1.0;
            excess.push(if own.peak_bytes > *limit { f64::INFINITY } else { more });
            table.add(vec![
                name.to_owned(),
                Bytes::new(*limit).to_string(),
                Bytes::new(own.peak_bytes).to_string(),
                format!("{:.1}", own.seconds * 1e3),
                format!("{:.1}", best * 1e3),
                format!("{:+.1} %", more * 100.0),
            ]);
        }
    }
    let within = |share: f64| excess.iter().filter(|more| **more <= share).count().to_string();
    let above = excess.iter().filter(|more| more.is_infinite()).count().to_string();
    let figures = [
        ("cases", excess.len().to_string()),
        ("above", above),
        ("within5", within(0.05)),
        ("within15", within(0.15)),
    ];
    for (name, figure) in figures {
        println!("{name}: {figure}");
        table.data.figures.insert(name.to_owned(), figure);
    }
    table.end("fit-accuracy")?;
    Ok(ExitCode::SUCCESS)
}

/// Trains in processes of their own.
fn trained(oomph: &Path, config: &str, batch: &str, memory: &str) -> Result<Trained, Box<dyn Error>> {
    let config = format!("{config}\ntrain.batch = {batch}\nmemory = {{ {memory} }}\n");
    let mut trained = Trained { peak_bytes: 0, seconds: f64::INFINITY };
    for _ in 0..RUNS {
        let rows = program::compared(oomph, &config, &["--batches", batch, "--steps", STEPS])?;
        let row = rows.first().ok_or("`oomph compare` has no row")?;
        trained.peak_bytes = trained.peak_bytes.max(program::figure(row, "peak_in_use_bytes")? as u64);
        trained.seconds = trained.seconds.min(program::figure(row, "step_seconds")?);
    }
    Ok(trained)
}
