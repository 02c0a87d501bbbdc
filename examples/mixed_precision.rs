//! Mixed precision: peaks and losses of the same training in fp32, in bf16, and in fp16 with a loss scale.
//!
//! ```sh
//! cargo run --release --example mixed_precision
//! ```
//!
//! docs/concepts/precision.md lists the precision of each operation.

use oomph_trainer::open;
use std::error::Error;

use oomph::trainer::measure::measure;
use oomph::{Config, Quiet, Registry, Session};

// Measures the memory of training.
oomph::install_meter!();

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:10} {:>13} {:>13}   loss", "precision", "planned peak", "peak in use");
    for precision in ["fp32", "bf16", "fp16"] {
        let measured = measure(&session(precision)?, 30, &mut Quiet)?;
        let planned = measured.planned.peak_bytes();
        // Present, as the meter is installed and the device is the CPU.
        let peak = measured.peak_in_use_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let (first, last) = (measured.loss_first(), measured.loss_last());
        println!("{precision:10} {:>13} {peak:>13}   {first:.3} → {last:.3}", planned.to_string());
    }
    Ok(())
}

/// A session with the same model, data and seed for all.
fn session(precision: &str) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 16 }}
         data = {{ source = 'digits', workers = 0 }}
         train = {{ batch = 128, steps = 30 }}
         optimizer = {{ name = 'sgd', lr = 0.05, momentum = 0.9 }}
         memory = {{ precision = '{precision}' }}"
    );
    Ok(open(Config::from_toml("precision", &settings)?, &Registry::builtin())?)
}
