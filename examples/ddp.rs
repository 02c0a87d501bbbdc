//! Replicas (`ddp`): each device has the whole model and a part of every batch, and gradients are summed over all. It is
//! the training of one device, on any number of them.
//!
//! ```sh
//! cargo run --release --example ddp
//! ```
//!
//! docs/parallel.md says what travels and when.

use std::error::Error;

use oomph::{Config, Done, Quiet, Registry, Session, Stop, TrainOptions, train};

// Counts what training takes in memory.
oomph::install_meter!();

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:12} {:>10}   {:24} gradients on their way, waited for", "devices", "loss", "peak in use");
    for devices in ["cpu", "cpu,cpu", "cpu,cpu,cpu"] {
        // Each training has a peak of its own.
        oomph::memory::restart_peak();
        let done = trained(devices)?;
        let peaks: Vec<_> = match done.devices.as_slice() {
            [] => vec![done.peak_in_use_bytes.to_string()],
            // There is a meter, installed above, and the devices are parts of the CPU.
            all => all.iter().filter_map(|one| Some(one.peak_in_use_bytes?.to_string())).collect(),
        };
        // Rank 0 knows, where there are others.
        let times = done.devices.first().and_then(|first| first.all_reduce_seconds);
        let times = times.map(|seconds| seconds.map(|seconds| format!("{:.0} ms", 1e3 * seconds)).join(", "));
        let loss = done.eval_loss.unwrap_or_default();
        println!("{devices:12} {loss:10.6}   {:24} {}", peaks.join(", "), times.unwrap_or_default());
    }
    Ok(())
}

/// The same model, data, batch and seed on any devices. The model has no batch normalisation: with it, add
/// `device.sync_batch_norm = true`.
fn trained(devices: &str) -> Result<Done, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let settings = format!(
        "model = {{ name = 'lstm', hidden = 64 }}
         data = {{ source = 'digits', layout = 'rows', workers = 0 }}
         train = {{ batch = 96, steps = 30 }}
         optimizer = {{ name = 'sgd', lr = 0.1, momentum = 0.9 }}
         device = {{ devices = '{devices}', strategy = 'ddp' }}
         run.directory = '{}'",
        folder.path().join("run").display()
    );
    let session = Session::open(Config::from_toml("ddp", &settings)?, &Registry::builtin())?;
    Ok(train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new())?)
}
