//! Optimizer state, gradients and parameters sharded over four replicas: the peak of each device, and the same loss.
//!
//! ```sh
//! cargo run --release --example shard
//! ```
//!
//! docs/concepts/sharding.md explains it.

use std::error::Error;

use oomph::{Config, Done, Quiet, Registry, Stop, TrainOptions, train};
use oomph_trainer::open;

// Measures the memory of training.
oomph::install_meter!();

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:11} {:9}  peak in use of each device", "shard", "eval loss");
    for shard in ["none", "optimizer", "gradients", "parameters"] {
        let done = trained(shard)?;
        let peaks: Vec<_> =
            done.devices.iter().filter_map(|one| Some(one.peak_in_use_bytes?.to_string())).collect();
        println!("{shard:11} {:9.6}  {}", done.eval_loss.unwrap_or_default(), peaks.join(", "));
    }
    Ok(())
}

/// Trains the same model with the same data, batch and seed.
fn trained(shard: &str) -> Result<Done, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let settings = format!(
        "model = {{ name = 'lstm', hidden = 256, layers = 4 }}
         data = {{ source = 'digits', layout = 'rows', workers = 0 }}
         train = {{ batch = 64, steps = 20 }}
         optimizer = {{ name = 'adamw' }}
         memory.recompute = 'stages'
         device = {{ devices = 'cpu,cpu,cpu,cpu', strategy = 'ddp', shard = '{shard}' }}
         run.directory = '{}'",
        folder.path().join("run").display()
    );
    let session = open(Config::from_toml("shard", &settings)?, &Registry::builtin())?;
    Ok(train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new())?)
}
