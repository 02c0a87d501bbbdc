//! Model parallel: consecutive stages of a model on consecutive devices, so that none has to hold all of it. One device,
//! a cut by hand, and the planner's, which makes the largest device as small as can be.
//!
//! ```sh
//! cargo run --release --example model_parallel
//! ```
//!
//! docs/parallel.md says what crosses a boundary.

use std::error::Error;

use oomph::{Config, PlanOptions, Quiet, Registry, Session, Stop, TrainOptions, plan, plan_cut, train};

// Counts what training takes in memory.
oomph::install_meter!();

/// As in `[device]`.
const PLACES: [&str; 4] = [
    "devices = 'cpu'",
    "devices = 'cpu,cpu', strategy = 'model', cut = ['layer3']",
    "devices = 'cpu,cpu', strategy = 'model'",
    "devices = 'cpu,cpu,cpu', strategy = 'model'",
];

fn main() -> Result<(), Box<dyn Error>> {
    for place in PLACES {
        let folder = tempfile::tempdir()?;
        let session = session(place, folder.path())?;
        println!("{place}");
        // Each training has a peak of its own.
        oomph::memory::restart_peak();
        let done = train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new())?;
        match plan_cut(&session, PlanOptions::default())? {
            Some(cut) => {
                for (part, device) in cut.parts.iter().zip(&done.devices) {
                    let stages = format!("{} … {}", part.names[0], part.names[1]);
                    let planned = part.timeline.peak().categories.total().to_string();
                    let measured = device.peak_in_use_bytes.unwrap_or_default().to_string();
                    println!("    {stages:22} planned peak {planned:>9}, peak in use {measured:>9}");
                }
            }
            None => {
                let planned = plan(&session, PlanOptions::default())?.peak().categories.total().to_string();
                let measured = done.peak_in_use_bytes.to_string();
                println!("    {:22} planned peak {planned:>9}, peak in use {measured:>9}", "all");
            }
        }
        println!("    loss {:.6}", done.loss.unwrap_or_default());
    }
    Ok(())
}

/// The same model, data and seed wherever it lies.
fn session(place: &str, folder: &std::path::Path) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 16 }}
         data = {{ source = 'digits', workers = 0, last_batch = 'drop' }}
         train = {{ batch = 64, steps = 10, eval_every = 'never' }}
         optimizer = {{ name = 'sgd', lr = 0.02, momentum = 0.9 }}
         device = {{ {place} }}
         run.directory = '{}'",
        folder.join("run").display()
    );
    Ok(Session::open(Config::from_toml("model_parallel", &settings)?, &Registry::builtin())?)
}
