//! `memory.fit = "auto"` under lower and lower limits: what it chooses, the planned and measured peak, and the time of a step.
//!
//! ```sh
//! cargo run --release --example fit
//! ```
//!
//! docs/concepts/fit.md explains it.

use std::error::Error;

use oomph::trainer::{fit::fitted, measure::measure, open};
use oomph::{Config, PlanOptions, Quiet, Registry, Session, plan};

// Measures the memory of training.
oomph::install_meter!();

fn main() -> Result<(), Box<dyn Error>> {
    println!("     limit   planned peak    peak in use    a step   chosen");
    for limit in ["256MiB", "60MiB", "40MiB", "30MiB", "24MiB"] {
        let session = session(limit)?;
        let peak = plan(&session, PlanOptions::default())?.peak().categories.total().to_string();
        let chosen = fitted(&session)?;
        let measured = measure(&chosen, 6, &mut Quiet)?;
        // Present, as the meter is installed and the device is the CPU.
        let in_use = measured.peak_in_use_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let step = measured.step_seconds * 1000.0;
        let memory = &chosen.config.memory;
        let (micro_batch, gradients) = (memory.micro_batch, memory.gradients.name());
        println!(
            "{limit:>10} {peak:>14} {in_use:>14} {step:>6.1} ms   {micro_batch:?}, recompute {:?}, {gradients} gradients",
            memory.recompute
        );
    }
    Ok(())
}

/// A session that needs 42 MiB with default settings.
fn session(limit: &str) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 32 }}
         data = {{ source = 'digits', workers = 0 }}
         train = {{ batch = 64, steps = 6 }}
         optimizer = {{ name = 'adamw' }}
         memory = {{ fit = 'auto', limit = '{limit}' }}"
    );
    Ok(open(Config::from_toml("fit", &settings)?, &Registry::builtin())?)
}
