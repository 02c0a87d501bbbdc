//! The memory of optimizer state: a ResNet trains a few steps on the built-in digits with each optimizer. Prints the
//! planned and the measured bytes of its state.
//!
//! ```sh
//! cargo run --release --example optimizers
//! ```
//!
//! `cargo oomph compare` does the same for any config. It runs a process per row, so the peaks can be compared too: see
//! docs/concepts/optimizers.md.

use oomph_trainer::open;
use std::error::Error;

use oomph::trainer::measure::measure;
use oomph::{Config, Quiet, Registry, Session};

// Measures the memory of training.
oomph::install_meter!();

/// Settings of `[optimizer]`. Other keys, including the learning rate, have the defaults of the optimizer.
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
        let measured = measure(&session(optimizer)?, 20, &mut Quiet)?;
        let planned = measured.planned.state_bytes.to_string();
        // Present, as the meter is installed and the device is the CPU.
        let state = measured.state_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let each = measured.state_bytes_per_parameter().unwrap_or_default();
        let (first, last) = (measured.loss_first(), measured.loss_last());
        println!("{optimizer:28} {planned:>13} {state:>13} {each:>9.2} B   {first:.3} → {last:.3}");
    }
    Ok(())
}

/// A session with the same model, data and seed for all.
fn session(optimizer: &str) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 16 }}
         data = {{ source = 'digits', workers = 0 }}
         train = {{ batch = 32, steps = 20 }}
         optimizer = {{ {optimizer} }}"
    );
    Ok(open(Config::from_toml("optimizers", &settings)?, &Registry::builtin())?)
}
