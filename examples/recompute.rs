//! Recomputation (gradient checkpointing): the same training with all activations kept, with only the inputs of stages
//! kept, and with as many stages computed again as a limit asks for. The losses are the same to the bit.
//!
//! ```sh
//! cargo run --release --example recompute
//! ```
//!
//! docs/recompute.md says what each choice keeps.

use std::error::Error;

use oomph::trainer::{MeasureOptions, measure};
use oomph::{Config, Quiet, Registry, Session};

// Counts what training takes in memory.
oomph::install_meter!();

/// As in `[memory]`.
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
        let measured = measure(&session, MeasureOptions { steps: 8 }, &mut Quiet)?;
        let planned = measured.planned.peak_bytes().to_string();
        // There is a meter, installed above, and the device is the CPU.
        let peak = measured.peak_in_use_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        println!("{policy:36} {planned:>13} {peak:>13}   {:.6}", measured.loss_last);
    }
    Ok(())
}

/// The same model, data and seed for all.
fn session(policy: &str) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 16 }}
         data = {{ source = 'digits', workers = 0 }}
         train = {{ batch = 192, steps = 8 }}
         optimizer = {{ name = 'sgd', lr = 0.05 }}
         memory = {{ {policy} }}"
    );
    Ok(Session::open(Config::from_toml("recompute", &settings)?, &Registry::builtin())?)
}
