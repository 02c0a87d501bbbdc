//! Replicas (`ddp`): each device has the whole model and a part of every batch, and gradients are summed over all
//! devices. The result is that of one device.
//!
//! ```sh
//! cargo run --release --example ddp
//! ```
//!
//! docs/concepts/parallel.md explains what devices exchange and when.

use oomph_trainer::open;
use std::error::Error;

use oomph::{Config, Done, Quiet, Registry, Stop, TrainOptions, train};

// Measures the memory of training.
oomph::install_meter!();

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:12} {:9} {:11}  peak in use", "devices", "eval loss", "all-reduce");
    // Fewer devices hold more each, so the peak of each run is its own and not that of the run before.
    for devices in ["cpu,cpu,cpu", "cpu,cpu", "cpu"] {
        let done = trained(devices)?;
        // Rank 0 reports its own times.
        let all_reduce = match done.devices.first().and_then(|first| first.all_reduce_seconds) {
            Some([under_way, _]) => format!("{:.1} ms", 1e3 * under_way / done.step as f64),
            None => "–".into(),
        };
        let peaks: Vec<_> = match done.devices.as_slice() {
            [] => vec![done.peak_in_use_bytes.to_string()],
            // Present, as the meter is installed and the devices are parts of the CPU.
            all => all.iter().filter_map(|one| Some(one.peak_in_use_bytes?.to_string())).collect(),
        };
        let loss = done.eval_loss.unwrap_or_default();
        println!("{devices:12} {loss:9.6} {all_reduce:>11}  {}", peaks.join(", "));
    }
    Ok(())
}

/// Trains the same model with the same data, batch and seed on any devices. The model has no batch normalisation, which
/// would see only the samples of its device; with one, set `device.sync_batch_norm`.
fn trained(devices: &str) -> Result<Done, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let settings = format!(
        "model = {{ name = 'lstm', hidden = 128 }}
         data = {{ source = 'digits', layout = 'rows', workers = 0 }}
         train = {{ batch = 192, steps = 20 }}
         optimizer = {{ name = 'sgd', lr = 0.2, momentum = 0.9 }}
         device = {{ devices = '{devices}', strategy = 'ddp' }}
         run.directory = '{}'",
        folder.path().join("run").display()
    );
    let session = open(Config::from_toml("ddp", &settings)?, &Registry::builtin())?;
    Ok(train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new())?)
}
