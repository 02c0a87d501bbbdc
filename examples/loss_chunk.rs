//! The loss by chunks of tokens: the peak with all logits at once and with fewer, and the same loss.
//!
//! ```sh
//! cargo run --release --example loss_chunk
//! ```
//!
//! docs/concepts/loss-chunks.md explains it.

use std::error::Error;

use oomph::trainer::{measure::measure, open};
use oomph::{Config, Quiet, Registry, Session};

// Measures the memory of training.
oomph::install_meter!();

fn main() -> Result<(), Box<dyn Error>> {
    println!("tokens   peak in use    a step   loss");
    for tokens in ["'none'", "512", "128"] {
        let measured = measure(&session(tokens)?, 12, &mut Quiet)?;
        // Present, as the meter is installed and the device is the CPU.
        let peak = measured.peak_in_use_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let step = measured.step_seconds * 1000.0;
        println!("{tokens:6} {peak:>13} {step:>6.1} ms   {:.4}", measured.loss_last());
    }
    Ok(())
}

/// A session of a small decoder with a large vocabulary: most of its memory are logits.
fn session(tokens: &str) -> Result<Session, Box<dyn Error>> {
    let settings = format!(
        "model = {{ name = 'gpt', layers = 2, hidden = 64, heads = 4 }}
         data = {{ source = 'synthetic', kind = 'tokens', vocabulary = 8000, steps = 128, carry = false, workers = 0 }}
         train = {{ batch = 8, steps = 12 }}
         optimizer = {{ name = 'adamw' }}
         memory = {{ loss_chunk = {tokens} }}"
    );
    Ok(open(Config::from_toml("chunks", &settings)?, &Registry::builtin())?)
}
