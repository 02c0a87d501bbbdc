//! Opening a session: model, data, task and devices are found, opened and checked together.

mod class_weights;
mod components;
mod error;
mod layout;
mod process;
mod registry;
mod session;
mod weights;

pub use components::{Components, cache_dir};
pub use error::SessionError;
pub use layout::{new_stepper, open_layout};
pub use process::{RankProcess, open_together};
pub use registry::Registry;
pub use session::{default_limit, limit_of, open, open_on, open_to_plan};
pub use weights::{LoadedWeights, check_weights, initial_model};

pub(crate) use layout::{off_device, own_pool, stepper_to_restore};
pub(crate) use session::{are_different_gpus, open_trained, rank_session, rows_of};
pub(crate) use weights::model_of_weights;
