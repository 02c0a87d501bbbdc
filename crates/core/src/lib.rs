//! The words every oomph crate speaks.
//!
//! - [`Bytes`]: a count of bytes that prints as KiB, MiB or GiB and reads `"24GiB"`.
//! - [`SampleSpec`]: what one sample of a data source looks like, agreed between data, model and task.
//! - [`Generator`]: randomness that is a function of a key such as (seed, step, rank, stage), never of history.
//! - [`Place`]: where a run is, phase and scope; [`scope`] names a part of a model for every report.
//! - [`Account`]: whom an allocation is charged to, the host or the device; [`charge`] says it.
//! - [`on_device`]: which of several CPU devices a thread works for.
//! - [`Split`] and [`Mode`]: the training or the test part of the data; training or evaluating.
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
//! It knows nothing of Burn, files or configuration.

mod account;
mod bytes;
mod device;
mod generator;
mod place;
mod sample;

pub use account::{Account, charge, charge_thread, charged_account};
pub use bytes::{Bytes, ParseBytesError};
pub use device::{MOST_DEVICES, current_device, device_count, device_thread, on_device};
pub use generator::{Generator, Key};
pub use place::{
    Phase, Place, PlaceGuard, at_place, is_within, phase, place, scope, shared_place, shared_place_of,
    watch_places,
};
pub use sample::{InputSpec, Mode, SampleSpec, Split, TargetSpec};
