//! What optimizers keep: a ResNet on the embedded digits takes a few steps with each, and the bytes of its state are
//! planned, and measured by the meter.
//!
//! ```sh
//! cargo run --release --example optimizers
//! ```
//!
//! `cargo oomph compare` does the same for any config, with a process for each row, so that the peaks can be compared
//! too: see docs/optimizers.md.

use std::error::Error;

use oomph::trainer::{MeasureOptions, measure};
use oomph::{Config, Quiet, Registry, Session};

// Counts what training takes in memory.
oomph::install_meter!();

/// As in `[optimizer]`. What is not said has the default of that optimizer, its learning rate too.
const OPTIMIZERS: [&str; 6] = [
    "name = 'sgd'",
    "name = 'adafactor'",
    "name = 'lion'",
    "name = 'sgd', momentum = 0.9",
    "name = 'adamw'",
    "name = 'adan'",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:28} {:>13} {:>13} {:>11}   loss", "optimizer", "state planned", "measured", "a parameter");
    for optimizer in OPTIMIZERS {
        let measured = measure(&session(optimizer)?, MeasureOptions { steps: 20 }, &mut Quiet)?;
        let planned = measured.planned.state_bytes.to_string();
        // There is a meter, installed above, and the device is the CPU.
        let state = measured.state_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let each = measured.state_bytes_per_parameter().unwrap_or_default();
        let (first, last) = (measured.loss_first, measured.loss_last);
        println!("{optimizer:28} {planned:>13} {state:>13} {each:>9.2} B   {first:.3} → {last:.3}");
    }
    Ok(())
}

/// The same model, data and seed for all.
fn session(optimizer: &str) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 16 }}
         data = {{ source = 'digits', workers = 0 }}
         train = {{ batch = 32, steps = 20 }}
         optimizer = {{ {optimizer} }}"
    );
    Ok(Session::open(Config::from_toml("optimizers", &settings)?, &Registry::builtin())?)
}
