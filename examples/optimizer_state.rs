//! Optimizer state of 32, 16 and 8 bits: the peak, the bytes of state a parameter, and the loss.
//!
//! ```sh
//! cargo run --release --example optimizer_state
//! ```
//!
//! docs/concepts/optimizer-state.md explains it.

use std::error::Error;

use oomph::trainer::{measure::measure, open};
use oomph::{Config, Quiet, Registry, Session};

// Measures the memory of training.
oomph::install_meter!();

fn main() -> Result<(), Box<dyn Error>> {
    println!("state   peak in use   state/parameter    a step   loss");
    for format in ["fp32", "bf16", "int8"] {
        let measured = measure(&session(format)?, 30, &mut Quiet)?;
        // Present, as the meter is installed and the device is the CPU.
        let peak = measured.peak_in_use_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let state = measured.state_bytes_per_parameter().unwrap_or_default();
        let step = measured.step_seconds * 1000.0;
        println!("{format:5} {peak:>13} {state:>15.2} B {step:>8.1} ms   {:.4}", measured.loss_last());
    }
    Ok(())
}

/// A session of a small batch, whose optimizer state counts.
fn session(format: &str) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 32 }}
         data = {{ source = 'digits', workers = 0 }}
         train = {{ batch = 4, steps = 30 }}
         optimizer = {{ name = 'adamw', state = '{format}' }}
         memory.gradients = 'release'"
    );
    Ok(open(Config::from_toml("state", &settings)?, &Registry::builtin())?)
}
