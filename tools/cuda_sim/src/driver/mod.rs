//! The functions of `cuda.h` that Burn's CUDA backend, NVRTC and oomph call.
//!
//! Each is named as there and answers its numbers. Pointers that a caller passes are trusted, as by the real driver.

mod device;
mod launch;
mod memory;
mod refused;
mod stream;

pub(crate) use device::text;

use crate::failure::Failure;

/// Writes an answer through a pointer of the caller.
fn put<T>(target: *mut T, value: T) -> Result<(), Failure> {
    if target.is_null() {
        return Err(Failure::InvalidValue);
    }
    // SAFETY: the caller passes a pointer that it may write, as `cuda.h` demands.
    unsafe { target.write(value) };
    Ok(())
}
