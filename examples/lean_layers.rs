//! Lean layers: what backward passes written by hand keep, beside those of Burn's operations. Nothing else differs.
//!
//! ```sh
//! cargo run --release --example lean_layers
//! ```
//!
//! docs/lean-layers.md says how.

use std::error::Error;

use oomph::trainer::{MeasureOptions, measure};
use oomph::{Config, Quiet, Registry, Session};

// Counts what training takes in memory.
oomph::install_meter!();

/// As in `[model]`, with the layout of the digits that goes with it.
const MODELS: [(&str, &str); 2] = [
    ("name = 'resnet18', stem = 'small', width = 16", "image"),
    ("name = 'lstm', hidden = 128, layers = 2", "rows"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:46} {:5} {:>13} {:>9}   loss", "model", "lean", "peak in use", "a step");
    for (model, layout) in MODELS {
        for lean in [false, true] {
            let measured = measure(&session(model, layout, lean)?, MeasureOptions { steps: 12 }, &mut Quiet)?;
            // There is a meter, installed above, and the device is the CPU.
            let peak = measured.peak_in_use_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
            let step = measured.step_seconds * 1000.0;
            println!("{model:46} {lean:5} {peak:>13} {step:>6.1} ms   {:.4}", measured.loss_last);
        }
    }
    Ok(())
}

/// The same data and seed for all.
fn session(model: &str, layout: &str, lean: bool) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ {model} }}
         data = {{ source = 'digits', layout = '{layout}', workers = 0 }}
         train = {{ batch = 192, steps = 12 }}
         optimizer = {{ name = 'sgd', lr = 0.05 }}
         memory = {{ lean = {lean} }}"
    );
    Ok(Session::open(Config::from_toml("lean", &settings)?, &Registry::builtin())?)
}
