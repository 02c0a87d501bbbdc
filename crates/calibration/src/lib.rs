//! Measures how fast this machine runs the kernels of a training, and keeps the result, so that plans can say how long a
//! training takes.
//!
//! - [`measure`]: times kernels of each kind at some sizes, through the functions that a training calls.
//! - [`Calibration`]: the times, in a file of the user's cache that belongs to one [`MachineKey`].
//! - [`reference()`]: the calibration of another machine, for ratios of times where this one is not measured yet.
//!
//! ```
//! use oomph_calibration::{MachineKey, reference};
//!
//! assert!(reference().samples.len() > 100);
//! assert!(MachineKey::here(2).file_name().ends_with("-2-threads.json"));
//! ```
//!
//! It plans nothing: `oomph-plan` estimates the time of recorded operations.

mod file;
mod machine;
mod measure;
#[doc(hidden)]
pub mod parsers;
mod probe;
mod probes;

pub use file::{Calibration, CalibrationError, reference};
pub use machine::MachineKey;
pub use measure::measure;
