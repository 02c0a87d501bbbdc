//! Hyperparameter search by asking and telling.
//!
//! - [`Space`]: the parameters of a search, each with its [`Domain`]; [`Point`]: one value for each active parameter.
//! - [`Trial`]: a point that was tried, or is being tried, and what is known of it.
//!
//! It knows no trainer, no files and no clock.

mod space;
mod trial;

pub use space::{Choice, Domain, Parameter, Point, Space, When};
pub use trial::{Direction, State, Trial};
