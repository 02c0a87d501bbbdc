//! Recompute (gradient checkpointing): the same training with all activations kept, with only the inputs of stages kept,
//! and with as many recomputed stages as a limit requires. The losses are bitwise equal.
//!
//! ```sh
//! cargo run --release --example recompute
//! ```
//!
//! docs/concepts/recompute.md lists what each choice keeps.

use oomph_trainer::open;
use std::error::Error;

use oomph::trainer::measure::measure;
use oomph::{Config, Quiet, Registry, Session};

// Measures the memory of training.
oomph::install_meter!();

/// Settings of `[memory]`.
const POLICIES: [&str; 4] = [
    "recompute = 'none'",
    "recompute = 'stages'",
    "recompute = ['layer1']",
    "recompute = 'auto', limit = '18MiB'",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:36} {:>13} {:>13}   loss", "policy", "planned peak", "peak in use");
    for policy in POLICIES {
        let session = session(policy)?;
        let measured = measure(&session, 8, &mut Quiet)?;
        let planned = measured.planned.peak_bytes().to_string();
        // Present, as the meter is installed and the device is the CPU.
        let peak = measured.peak_in_use_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        println!("{policy:36} {planned:>13} {peak:>13}   {:.6}", measured.loss_last());
    }
    Ok(())
}

/// A session with the same model, data and seed for all.
fn session(policy: &str) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 16 }}
         data = {{ source = 'digits', workers = 0 }}
         train = {{ batch = 192, steps = 8 }}
         optimizer = {{ name = 'sgd', lr = 0.05 }}
         memory = {{ {policy} }}"
    );
    Ok(open(Config::from_toml("recompute", &settings)?, &Registry::builtin())?)
}
