//! The types that every oomph crate shares.
//!
//! - [`Bytes`]: a count of bytes, printed as KiB, MiB or GiB and parsed from `"24GiB"`; [`grouped`]: `12,000`.
//! - [`SampleSpec`]: the shape of one sample, on which data, model and task agree.
//! - [`Generator`]: randomness as a function of a key such as (seed, step, rank, stage), never of history.
//! - [`ExecutionPoint`]: the phase and scope a thread is in; [`scope`] names a part of a model in every report.
//! - [`Account`]: the account of an allocation, host or device; [`charge`] sets it.
//! - [`on_device`]: chooses the CPU device that a thread works for.
//! - [`files`]: files that are complete or absent, and never in the place of something else.
//! - [`printable()`]: a text from outside as a terminal may show it.
//! - [`open_file`]: opens a file of the user without waiting; pipes and devices are refused.
//! - [`system`]: what Linux, macOS and Windows do each in their own way.
//! - [`threads`]: work on all cores.
//! - [`Split`] and [`Mode`]: training or test data; training or evaluation.
//!
//! ```
//! use oomph_core::{Bytes, Generator, Key};
//!
//! let limit: Bytes = "1.5 GiB".parse()?;
//! assert_eq!(limit.get(), 1_610_612_736);
//! assert_eq!(limit.to_string(), "1.50 GiB");
//!
//! // The same key always draws the same numbers, in any thread and in any order.
//! let key = Key::new(42).with(7).with_name("layer1.0");
//! assert_eq!(Generator::at(key).uniform(), Generator::at(key).uniform());
//! # Ok::<(), oomph_core::ParseBytesError>(())
//! ```
//!
//! It knows nothing of Burn, the contents of files or configuration.

mod account;
mod bytes;
pub mod child;
mod execution_point;
pub mod files;
mod generator;
mod open;
pub mod printable;
mod sample;
mod significant;
pub mod simd;
pub mod system;
pub mod threads;

pub use account::{
    Account, MOST_DEVICES, charge, charge_thread, charged_account, current_device, device_count,
    device_thread, on_device,
};
pub use bytes::{Bytes, ParseBytesError, grouped};
pub use execution_point::{
    ExecutionPoint, Phase, PointGuard, at_point, current_point, is_within, phase, scope, shared_point,
    shared_point_of, watch_points,
};
pub use generator::{Generator, Key, StreamPosition};
pub use open::{NotAFile, open_file, open_file_with, read_file, read_text};
pub use printable::{is_unprintable, printable, printable_lines};
pub use sample::{InputSpec, Mode, SampleSpec, Split, TargetSpec};
pub use significant::significant;
