//! Gradients that are released in backward: the peak with gradients kept and released, and the same loss.
//!
//! ```sh
//! cargo run --release --example release_gradients
//! ```
//!
//! docs/concepts/gradients.md explains it.

use std::error::Error;

use oomph::trainer::{measure::measure, open};
use oomph::{Config, Quiet, Registry, Session};

// Measures the memory of training.
oomph::install_meter!();

fn main() -> Result<(), Box<dyn Error>> {
    println!("gradients   peak in use    a step   loss");
    for gradients in ["keep", "release"] {
        let measured = measure(&session(gradients)?, 12, &mut Quiet)?;
        // Present, as the meter is installed and the device is the CPU.
        let peak = measured.peak_in_use_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let step = measured.step_seconds * 1000.0;
        println!("{gradients:9} {peak:>13} {step:>6.1} ms   {:.4}", measured.loss_last());
    }
    Ok(())
}

/// A session of a small batch, whose gradients count.
fn session(gradients: &str) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 32 }}
         data = {{ source = 'digits', workers = 0 }}
         train = {{ batch = 4, steps = 12 }}
         optimizer = {{ name = 'adamw' }}
         memory = {{ gradients = '{gradients}' }}"
    );
    Ok(open(Config::from_toml("release", &settings)?, &Registry::builtin())?)
}
