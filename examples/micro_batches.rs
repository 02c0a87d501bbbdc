//! Micro-batches (gradient accumulation): one optimizer step of the same batch, cut ever smaller, and as a limit asks.
//!
//! ```sh
//! cargo run --release --example micro_batches
//! ```
//!
//! docs/micro-batches.md says what stays the same.

use std::error::Error;

use oomph::trainer::{MeasureOptions, measure};
use oomph::{Config, Quiet, Registry, Session};

// Counts what training takes in memory.
oomph::install_meter!();

/// As in `[memory]`.
const POLICIES: [&str; 4] =
    ["micro_batch = 192", "micro_batch = 48", "micro_batch = 7", "micro_batch = 'auto', limit = '4MiB'"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:36} {:>6} {:>13}   loss", "policy", "chosen", "peak in use");
    for policy in POLICIES {
        let session = session(policy)?;
        let measured = measure(&session, MeasureOptions { steps: 8 }, &mut Quiet)?;
        // There is a meter, installed above, and the device is the CPU.
        let peak = measured.peak_in_use_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        println!("{policy:36} {:>6} {peak:>13}   {:.6}", session.micro_batch(), measured.loss_last);
    }
    Ok(())
}

/// The same model, data and seed for all. The model has no batch normalisation, which would see the micro-batch.
fn session(policy: &str) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ name = 'lstm', hidden = 64 }}
         data = {{ source = 'digits', layout = 'rows', workers = 0 }}
         train = {{ batch = 192, steps = 8 }}
         optimizer = {{ name = 'sgd', lr = 0.05 }}
         memory = {{ {policy} }}"
    );
    Ok(Session::open(Config::from_toml("micro_batches", &settings)?, &Registry::builtin())?)
}
