//! Optimizer state and inputs of recomputed stages in host memory: the peak on the device, the planned bytes in host memory, and the
//! same loss.
//!
//! ```sh
//! cargo run --release --example offload
//! ```
//!
//! docs/concepts/offload.md explains it.

use std::error::Error;

use oomph::trainer::{measure::measure, open};
use oomph::{Config, PlanOptions, Quiet, Registry, Session, plan};

// Measures the memory of training.
oomph::install_meter!();

fn main() -> Result<(), Box<dyn Error>> {
    println!("offload                 peak in use   in host memory    a step   loss");
    for offload in ["none", "optimizer", "activations", "optimizer,activations"] {
        let session = session(offload)?;
        let host = plan(&session, PlanOptions::default())?.offloaded.total().to_string();
        let measured = measure(&session, 12, &mut Quiet)?;
        // Present, as the meter is installed and the device is the CPU.
        let peak = measured.peak_in_use_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let step = measured.step_seconds * 1000.0;
        println!("{offload:21} {peak:>13} {host:>16} {step:>6.1} ms   {:.4}", measured.loss_last());
    }
    Ok(())
}

/// A session whose optimizer state counts, and whose stages recompute.
fn session(offload: &str) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 32 }}
         data = {{ source = 'digits', workers = 0 }}
         train = {{ batch = 32, steps = 12 }}
         optimizer = {{ name = 'adamw' }}
         memory = {{ recompute = 'stages', offload = '{offload}' }}"
    );
    Ok(open(Config::from_toml("offload", &settings)?, &Registry::builtin())?)
}
