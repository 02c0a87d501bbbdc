//! Some training, for its processor time.

use std::error::Error;

use oomph_config::Config;
use oomph_core::Split;
use oomph_data::Loader;
use oomph_memory::{Account, charge};
use oomph_trainer::{Registry, Session, Stepper};

const RESNET: &str = "model = { name = 'resnet18', stem = 'small', width = 32 }
    data = { source = 'synthetic', kind = 'image', train_samples = 1600, workers = 0 }
    train = { batch = 16 }";
const LSTM: &str = "model = { name = 'lstm', hidden = 128 }
    data = { source = 'synthetic', kind = 'sequence', steps = 64, features = 64, train_samples = 1600, workers = 0 }
    train = { batch = 16 }";

/// Trains `model` for so many steps and gives the seconds of processor time that they took, all threads together.
pub(crate) fn work(model: &str, steps: usize) -> Result<f64, Box<dyn Error>> {
    let text = if model == "lstm" { LSTM } else { RESNET };
    let session = Session::open(Config::from_toml("meter_cost", text)?, &Registry::builtin())?;
    charge(Account::Device, || {
        let mut stepper = Stepper::new(&session)?;
        let mut loader = charge(Account::Host, || {
            let source = session.source.clone();
            Loader::start(source, Split::Train, session.train_order(), 0, 0, Some(1), &session.loader)
        });
        let mut started = 0.0;
        for step in 0..steps + 1 {
            // The first step warms caches up.
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
    // Behind the name in brackets: state, and from the 12th field on user and system time in hundredths.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
