//! Pipelines: model parallel with several micro-batches in flight, so that devices wait less. Prints the loss, and the
//! planned peak and idle share of each device, by schedule and number of micro-batches.
//!
//! ```sh
//! cargo run --release --example pipeline
//! ```
//!
//! docs/concepts/parallel.md shows the schedule of each device.

use oomph_trainer::open;
use std::error::Error;

use oomph::{Config, PlanOptions, Quiet, Registry, Stop, TrainOptions, plan_cut, train};

/// Settings of `[device]`.
const PLACES: [&str; 4] = [
    "devices = 'cpu'",
    "devices = 'cpu,cpu', split_points = ['lstm.2'], strategy = 'model'",
    "devices = 'cpu,cpu', split_points = ['lstm.2'], strategy = 'pipeline', schedule = 'gpipe'",
    "devices = 'cpu,cpu', split_points = ['lstm.2'], strategy = 'pipeline', schedule = '1f1b'",
];

fn main() -> Result<(), Box<dyn Error>> {
    for micro_batch in [48, 12] {
        println!("{} micro-batches of {micro_batch}", 96 / micro_batch);
        for place in PLACES {
            report(place, micro_batch)?;
        }
    }
    Ok(())
}

/// Trains the same model with the same data and seed, and prints a report.
fn report(place: &str, micro_batch: usize) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let settings = format!(
        "model = {{ name = 'lstm', hidden = 96, layers = 4 }}
         data = {{ source = 'digits', layout = 'rows', workers = 0, last_batch = 'drop' }}
         train = {{ batch = 96, steps = 20, eval_every = 'never' }}
         optimizer = {{ name = 'adamw', lr = 4e-3 }}
         memory.micro_batch = {micro_batch}
         device = {{ {place} }}
         run.directory = '{}'",
        folder.path().join("run").display()
    );
    let session = open(Config::from_toml("pipeline", &settings)?, &Registry::builtin())?;
    let done = train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new())?;
    println!("    {place:82} loss {:.6}", done.loss.unwrap_or_default());
    let parts = plan_cut(&session, PlanOptions::default())?.map(|cut| cut.parts).unwrap_or_default();
    for (part, device) in parts.iter().zip(&done.devices) {
        let (stages, peak) = (part.names.join(" … "), part.timeline.peak().categories.total());
        // Present, as the model is split over these devices.
        let idle = 100.0 * device.idle_share.unwrap_or_default();
        println!("        {stages:16} planned peak {:>9}, idle {idle:.0} %", peak.to_string());
    }
    Ok(())
}
