//! The functions of `cuda.h` that Burn's CUDA backend, NVRTC and oomph call.
//!
//! Each is named as there and answers its numbers. Pointers that a caller passes are trusted, as by the real driver.

mod device;
mod launch;
mod memory;
mod refused;
mod stream;

pub(crate) use device::text;

use crate::{failure::Failure, pointer};

/// Writes an answer through a pointer of the caller.
fn put<T>(target: *mut T, value: T) -> Result<(), Failure> {
    pointer::put(target, value).ok_or(Failure::InvalidValue)
}
