//! Lean layers: the peak with hand-written backward passes, and with those of Burn's operations. The results are the same.
//!
//! ```sh
//! cargo run --release --example lean_layers
//! ```
//!
//! docs/concepts/lean-layers.md explains them.

use oomph_trainer::open;
use std::error::Error;

use oomph::trainer::measure::measure;
use oomph::{Config, Quiet, Registry, Session};

// Measures the memory of training.
oomph::install_meter!();

/// Settings of `[model]`, each with its layout of the digits.
const MODELS: [(&str, &str); 2] = [
    ("name = 'resnet18', stem = 'small', width = 16", "image"),
    ("name = 'lstm', hidden = 128, layers = 2", "rows"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:46} {:5} {:>13} {:>9}   loss", "model", "lean", "peak in use", "a step");
    for (model, layout) in MODELS {
        for lean in [false, true] {
            let measured = measure(&session(model, layout, lean)?, 12, &mut Quiet)?;
            // Present, as the meter is installed and the device is the CPU.
            let peak = measured.peak_in_use_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
            let step = measured.step_seconds * 1000.0;
            println!("{model:46} {lean:5} {peak:>13} {step:>6.1} ms   {:.4}", measured.loss_last());
        }
    }
    Ok(())
}

/// A session with the same data and seed for all.
fn session(model: &str, layout: &str, lean: bool) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ {model} }}
         data = {{ source = 'digits', layout = '{layout}', workers = 0 }}
         train = {{ batch = 192, steps = 12 }}
         optimizer = {{ name = 'sgd', lr = 0.05 }}
         memory = {{ lean = {lean} }}"
    );
    Ok(open(Config::from_toml("lean", &settings)?, &Registry::builtin())?)
}
