//! The same networks of our layers.

use std::{error::Error, time::Instant};

use oomph_config::Config;
use oomph_core::Split;
use oomph_data::Loader;
use oomph_engine::session::train_order;
use oomph_memory::{Account, charge};
use oomph_trainer::{Registry, new_stepper, open};

pub(crate) const RESNET: &str = "model = { name = 'resnet18', stem = 'small', width = 64 }
    data = { source = 'synthetic', kind = 'image', channels = 3, height = 32, width = 32, train_samples = 32 }
    train = { batch = 32 }
    optimizer = { name = 'sgd', lr = 0.01, momentum = 0.9, weight_decay = 1e-4 }";
pub(crate) const LSTM: &str = "model = { name = 'lstm', hidden = 256, layers = 1 }
    data = { source = 'synthetic', kind = 'sequence', steps = 64, features = 128, train_samples = 32 }
    train = { batch = 32 }
    optimizer = { name = 'sgd', lr = 0.01, momentum = 0.9, weight_decay = 1e-4 }";

/// Seconds of the fastest of `steps` steps on one batch.
pub(crate) fn step_seconds(config: &str, steps: usize) -> Result<f64, Box<dyn Error>> {
    let session = open(Config::from_toml("stock_burn", config)?, &Registry::builtin())?;
    charge(Account::Device, || {
        let mut stepper = new_stepper(&session)?.0;
        let mut loader = charge(Account::Host, || {
            let source = session.source.clone();
            Loader::start(source, Split::Train, train_order(&session), 0, 0, Some(1), &session.loader)
        });
        let batch = charge(Account::Host, || loader.next()).ok_or("there is no batch")??;
        let mut fastest = f64::MAX;
        for step in 0..steps {
            let batch = charge(Account::Host, || batch.clone());
            let begin = Instant::now();
            stepper.step(batch, step, 0.01, session.task.as_ref())?;
            fastest = fastest.min(begin.elapsed().as_secs_f64());
        }
        Ok(fastest)
    })
}
