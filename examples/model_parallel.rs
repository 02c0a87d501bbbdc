//! Model parallel: each device holds some consecutive stages of the model. Prints the planned peak of each device without
//! a split, with a split point chosen by hand, and with those of the planner. The loss is the same for all.
//!
//! ```sh
//! cargo run --release --example model_parallel
//! ```
//!
//! docs/concepts/parallel.md explains what devices exchange.

use oomph_trainer::open;
use std::error::Error;

use oomph::{Config, PlanOptions, Quiet, Registry, Session, Stop, TrainOptions, plan, plan_cut, train};

/// Settings of `[device]`.
const PLACES: [&str; 4] = [
    "devices = 'cpu'",
    "devices = 'cpu,cpu', strategy = 'model', split_points = ['layer3']",
    "devices = 'cpu,cpu', strategy = 'model'",
    "devices = 'cpu,cpu,cpu', strategy = 'model'",
];

fn main() -> Result<(), Box<dyn Error>> {
    for place in PLACES {
        let folder = tempfile::tempdir()?;
        let settings = format!(
            "model = {{ name = 'resnet18', stem = 'small', width = 16 }}
             data = {{ source = 'digits', workers = 0, last_batch = 'drop' }}
             train = {{ batch = 64, steps = 8, eval_every = 'never' }}
             optimizer = {{ name = 'sgd', lr = 0.02, momentum = 0.9 }}
             device = {{ {place} }}
             run.directory = '{}'",
            folder.path().join("run").display()
        );
        let session = open(Config::from_toml("model_parallel", &settings)?, &Registry::builtin())?;
        println!("{place}");
        print_plan(&session)?;
        let done = train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new())?;
        println!("    loss {:.6} after {} steps", done.loss.unwrap_or_default(), done.step);
    }
    Ok(())
}

/// Prints the stages and the planned peak of each device.
fn print_plan(session: &Session) -> Result<(), Box<dyn Error>> {
    let Some(cut) = plan_cut(session, PlanOptions::default())? else {
        let peak = plan(session, PlanOptions::default())?.peak().categories.total();
        println!("    {:22} planned peak {peak}", "all");
        return Ok(());
    };
    for part in cut.parts {
        let stages = part.names.join(" … ");
        println!("    {stages:22} planned peak {}", part.timeline.peak().categories.total());
    }
    Ok(())
}
