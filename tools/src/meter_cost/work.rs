//! A training whose processor time is measured.

use std::error::Error;

use oomph_config::Config;
use oomph_core::Split;
use oomph_data::Loader;
use oomph_engine::session::train_order;
use oomph_memory::{Account, charge};
use oomph_trainer::{Registry, new_stepper, open};

const RESNET: &str = "model = { name = 'resnet18', stem = 'small', width = 32 }
    data = { source = 'synthetic', kind = 'image', train_samples = 1600, workers = 0 }
    train = { batch = 16 }";
const LSTM: &str = "model = { name = 'lstm', hidden = 128 }
    data = { source = 'synthetic', kind = 'sequence', steps = 64, features = 64, train_samples = 1600, workers = 0 }
    train = { batch = 16 }";

/// Trains `model` for `steps` steps: their processor time in seconds, all threads together.
pub(crate) fn work(model: &str, steps: usize) -> Result<f64, Box<dyn Error>> {
    let text = if model == "lstm" { LSTM } else { RESNET };
    let session = open(Config::from_toml("meter_cost", text)?, &Registry::builtin())?;
    charge(Account::Device, || {
        let mut stepper = new_stepper(&session)?.0;
        let mut loader = charge(Account::Host, || {
            let source = session.source.clone();
            Loader::start(source, Split::Train, train_order(&session), 0, 0, Some(1), &session.loader)
        });
        let mut started = 0.0;
        for step in 0..steps + 1 {
            // The first step fills caches.
            if step == 1 {
                started = processor_seconds();
            }
            let batch = charge(Account::Host, || loader.next()).ok_or("the data ended")??;
            stepper.step(batch, step, 0.01, session.task.as_ref())?;
        }
        Ok(processor_seconds() - started)
    })
}

/// Processor time of this process so far.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name in brackets comes the state; the fields 12 and 13 are user and system time in hundredths.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
