//! Pipelines: the model parallel training of `model_parallel`, with several micro-batches in flight, so that devices wait
//! less. By the number of micro-batches and both schedules: the loss, what each device holds, and how long it waits.
//!
//! ```sh
//! cargo run --release --example pipeline
//! ```
//!
//! docs/parallel.md shows who does what when.

use std::error::Error;

use oomph::{Config, Done, Quiet, Registry, Session, Stop, TrainOptions, train};

// Counts what training takes in memory.
oomph::install_meter!();

/// As in `[device]`.
const PLACES: [&str; 4] = [
    "devices = 'cpu'",
    "devices = 'cpu,cpu', strategy = 'model'",
    "devices = 'cpu,cpu', strategy = 'pipeline', schedule = 'gpipe'",
    "devices = 'cpu,cpu', strategy = 'pipeline', schedule = '1f1b'",
];

fn main() -> Result<(), Box<dyn Error>> {
    for micro_batch in [48, 12] {
        println!("{} micro-batches of {micro_batch}", 96 / micro_batch);
        for place in PLACES {
            // Each training has a peak of its own.
            oomph::memory::restart_peak();
            let done = trained(place, micro_batch)?;
            println!("    {place:64} loss {:.6}", done.loss.unwrap_or_default());
            for device in &done.devices {
                // They are parts of the CPU, where both are measured, and a model is cut over them.
                let peak = device.peak_in_use_bytes.unwrap_or_default().to_string();
                let idle = 100.0 * device.idle_share.unwrap_or_default();
                println!("        peak in use {peak:>9}, idle {idle:.0} %");
            }
        }
    }
    Ok(())
}

/// The same model, data and seed wherever it lies.
fn trained(place: &str, micro_batch: usize) -> Result<Done, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let settings = format!(
        "model = {{ name = 'lstm', hidden = 96, layers = 4 }}
         data = {{ source = 'digits', layout = 'rows', workers = 0, last_batch = 'drop' }}
         train = {{ batch = 96, steps = 20, eval_every = 'never' }}
         optimizer = {{ name = 'sgd', lr = 0.1, momentum = 0.9 }}
         memory.micro_batch = {micro_batch}
         device = {{ {place} }}
         run.directory = '{}'",
        folder.path().join("run").display()
    );
    let session = Session::open(Config::from_toml("pipeline", &settings)?, &Registry::builtin())?;
    Ok(train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new())?)
}
