//! `oomph` with a model, data and a loss of its own, into which a variable of the environment puts a value that is not
//! finite: the attack `numbers` starts it.
//!
//! ```sh
//! POISON='place=gradient,step=3,value=nan,stage=deep' poisoned train --config poisoned.toml
//! ```
//!
//! [`poison`] describes the variable. Without it, the program trains as any other. The variable is no key of the
//! configuration, so that a run can be resumed without its poison and still has the same configuration.

mod data;
mod loss;
mod model;
mod poison;

use std::{process::ExitCode, sync::Arc};

use oomph::Registry;

oomph::install_meter!();

fn main() -> ExitCode {
    let registry = Registry::builtin()
        .with_model("poisoned", model::read)
        .with_source("poisoned", data::read)
        .with_task("poisoned", |_| Ok(Arc::new(loss::PoisonedLoss)));
    oomph::run(registry)
}
