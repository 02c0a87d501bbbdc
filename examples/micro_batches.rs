//! Micro-batches (gradient accumulation): the same batch in micro-batches of several sizes, and of the size that fits a
//! limit.
//!
//! ```sh
//! cargo run --release --example micro_batches
//! ```
//!
//! docs/concepts/micro-batches.md explains what stays the same.

use oomph_advice::planning::micro_batch;
use oomph_trainer::open;
use std::error::Error;

use oomph::trainer::measure::measure;
use oomph::{Config, Quiet, Registry, Session};

// Measures the memory of training.
oomph::install_meter!();

/// Settings of `[memory]`.
const POLICIES: [&str; 4] =
    ["micro_batch = 192", "micro_batch = 48", "micro_batch = 7", "micro_batch = 'auto', limit = '4MiB'"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:36} {:>6} {:>13}   loss", "policy", "chosen", "peak in use");
    for policy in POLICIES {
        let session = session(policy)?;
        let measured = measure(&session, 8, &mut Quiet)?;
        // Present, as the meter is installed and the device is the CPU.
        let peak = measured.peak_in_use_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        println!("{policy:36} {:>6} {peak:>13}   {:.6}", micro_batch(&session), measured.loss_last());
    }
    Ok(())
}

/// A session with the same model, data and seed for all. The model has no batch normalisation, which would see the
/// micro-batch.
fn session(policy: &str) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ name = 'lstm', hidden = 64 }}
         data = {{ source = 'digits', layout = 'rows', workers = 0 }}
         train = {{ batch = 192, steps = 8 }}
         optimizer = {{ name = 'sgd', lr = 0.05 }}
         memory = {{ {policy} }}"
    );
    Ok(open(Config::from_toml("micro_batches", &settings)?, &Registry::builtin())?)
}
