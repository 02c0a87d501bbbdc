//! One device coordinates replicas on others (`dp`): the loss equals that of one device; prints the peak of each device.
//!
//! ```sh
//! cargo run --release --example dp
//! ```
//!
//! docs/concepts/parallel.md explains what devices exchange.

use oomph_trainer::open;
use std::error::Error;

use oomph::{Config, Quiet, Registry, Stop, TrainOptions, train};

// Measures the memory of training on each device.
oomph::install_meter!();

/// Settings of `[device]`.
const DEVICES: [&str; 4] = [
    "devices = 'cpu'",
    "devices = 'cpu,cpu,cpu', strategy = 'ddp'",
    "devices = 'cpu,cpu,cpu', strategy = 'dp'",
    "devices = 'cpu,cpu,cpu', strategy = 'dp', coordinator_share = 0.15",
];

fn main() -> Result<(), Box<dyn Error>> {
    let runs = tempfile::tempdir()?;
    for (number, devices) in DEVICES.iter().enumerate() {
        let directory = runs.path().join(number.to_string());
        let settings = format!(
            "model = {{ name = 'lstm-lm', hidden = 64, layers = 2 }}
             data = {{ source = 'synthetic', kind = 'tokens', steps = 32, vocabulary = 512, workers = 0 }}
             train = {{ batch = 48, steps = 8, eval_every = 'never' }}
             optimizer = {{ name = 'adam', lr = 0.003 }}
             run.directory = '{}'
             device = {{ {devices} }}",
            directory.display()
        );
        let session = open(Config::from_toml("dp", &settings)?, &Registry::builtin())?;
        let done = train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new())?;
        println!("{devices}\n  loss {:.6}", done.loss.unwrap_or_default());
        for (index, device) in done.devices.iter().enumerate() {
            // Present, as the meter is installed and the devices are the CPU.
            let peak = device.peak_in_use_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
            println!("  device {index}: peak in use {peak}");
        }
    }
    Ok(())
}
