//! The trials of a study, as this program trains them.
//!
//! - [`Program`]: plans trials with the models and data of a [`Registry`](oomph_trainer::Registry), and names the command that
//!   trains one.
//! - [`places()`]: the devices of a configuration as places of trials.
//! - [`page()`]: a study as the data of its page.
//!
//! ```
//! use oomph_config::Config;
//! use oomph_trainer::Registry;
//! use oomph_trials::Program;
//! use oomph_tuner::{Bench, Fit};
//!
//! let config = Config::from_toml("x.toml", "model = { name = 'lstm' }\ndata = { source = 'digits', layout = 'rows' }")?;
//! let program = Program { registry: &Registry::builtin(), command: "trial" };
//! assert!(matches!(program.plan(&config, false), Ok(Fit::Fits { .. })));
//! # Ok::<(), oomph_config::ConfigError>(())
//! ```
//!
//! It decides nothing about a study, and starts no process: `oomph-tuner` does.

mod page;
mod program;

pub use page::page;
pub use program::{Program, places};
