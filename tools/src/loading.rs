//! Loads the images of a folder once, as a training does, and tells the images a second. `tools/speed/loading.py` puts PyTorch's
//! loaders beside it.
//!
//! ```sh
//! cargo xtask loading photos 224        # classes below photos/train and photos/test, resized to 224 × 224
//! ```

use std::{process::ExitCode, time::Instant};

use oomph_config::Config;
use oomph_core::Split;
use oomph_data::Loader;
use oomph_engine::session::train_order;
use oomph_memory::{Account, charge};
use oomph_trainer::{Registry, open};

use crate::Outcome;

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let [folder, size] = arguments else {
        return Err("expected a folder of classes and a size in pixels".into());
    };
    let size: usize = size.parse()?;
    let config = format!(
        "model = {{ name = 'resnet18', width = 8 }}
        data = {{ source = 'folder', path = {folder:?}, size = {size}, cache = 'none', workers = 1 }}
        train = {{ batch = 64 }}
        optimizer = {{ name = 'sgd', lr = 0.01 }}"
    );
    let session = open(Config::from_toml("loading", &config)?, &Registry::builtin())?;
    let images = charge(Account::Host, || -> Result<_, Box<dyn std::error::Error>> {
        let source = session.source.clone();
        let begun = Instant::now();
        let loader =
            Loader::start(source, Split::Train, train_order(&session), 0, 0, Some(1), &session.loader);
        let mut images = 0;
        for batch in loader {
            images += batch?.size;
        }
        Ok(images as f64 / begun.elapsed().as_secs_f64())
    })?;
    println!("{images:.1}");
    Ok(ExitCode::SUCCESS)
}
