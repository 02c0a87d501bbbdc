//! Failures of a GPU, which Burn reports on a thread of its own.
//!
//! That thread panics, catches it, and goes on; the one that trains is told at its next read, once, of something that
//! follows from it, and may read what was never written. So the program's panic hook notes the panic here, and every
//! boundary of a step looks whether there is one. The first is what counts.

use std::{
    panic,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use burn::tensor::Device;
use oomph_core::{Bytes, place};

use crate::{OutOfMemory, Shortage, TrainError, is_after_a_failure, is_out_of_memory, without_backtrace};

/// What the names of Burn's device threads begin with (cubecl-common, `device/handle/channel.rs`).
const DEVICE_THREADS: &str = "DSD-";

static IS_NOTED: AtomicBool = AtomicBool::new(false);
static FIRST: Mutex<Option<String>> = Mutex::new(None);

/// Notes the panic of a thread, for the training that it will end: to be called by the program's panic hook, which
/// `oomph::run` does. Panics of threads that are not a device's are none of its business.
pub fn note_panic(thread: Option<&str>, message: &str) {
    if thread.is_some_and(|name| name.starts_with(DEVICE_THREADS)) && !is_after_a_failure(message) {
        FIRST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| message.to_owned());
        IS_NOTED.store(true, Relaxed);
    }
}

/// Whether a device failed since the last time.
///
/// # Errors
/// The failure, said to be where the training is now: it may be a little behind.
pub(crate) fn check() -> Result<(), TrainError> {
    if !IS_NOTED.load(Relaxed) {
        return Ok(());
    }
    IS_NOTED.store(false, Relaxed);
    let first = FIRST.lock().unwrap_or_else(PoisonError::into_inner).take();
    first.map_or(Ok(()), |message| Err(failure(&message)))
}

/// Waits for what was queued on the device, and looks whether it went well.
///
/// # Errors
/// What the device thread said, or else what the device says now.
pub(crate) fn settle(device: &Device) -> Result<(), TrainError> {
    let synced = device.sync();
    check()?;
    synced.map_err(|error| failure(&error.to_string()))
}

/// Runs `work`, which may panic where it reads what a device that failed never wrote: then the failure is the error.
///
/// # Errors
/// Those of `work`, and what the device thread said.
pub(crate) fn caught<T, E: From<TrainError>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    // After a failure nothing is read of what `work` changed but what it had saved.
    match panic::catch_unwind(panic::AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(panicked) => match check() {
            Err(failure) => Err(failure.into()),
            Ok(()) => panic::resume_unwind(panicked),
        },
    }
}

/// A message of the device as an error.
pub(crate) fn failure(message: &str) -> TrainError {
    let shown = without_backtrace(message);
    if !is_out_of_memory(message) {
        return TrainError::Device { message: shown };
    }
    let shortage = Shortage::Device { requested_bytes: requested(message), message: shown };
    Box::new(OutOfMemory::new(shortage, place().phase(), place().scope())).into()
}

/// The number in `failed to reserve 1048576 bytes of device memory`.
fn requested(message: &str) -> Option<Bytes> {
    let (_, rest) = message.split_once("failed to reserve ")?;
    rest.split(' ').next()?.parse().ok().map(Bytes::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = "failed to reserve 1048576 bytes of device memory: out of device memory allocating 2097152 \
                        bytes\n   0: cubecl_runtime::memory";

    #[test]
    fn the_first_failure_of_a_device_thread_counts() {
        note_panic(Some("main"), FULL);
        note_panic(None, FULL);
        assert!(check().is_ok());
        note_panic(Some("DSD-0-0"), FULL);
        note_panic(Some("DSD-0-0"), "another");
        let Err(TrainError::OutOfMemory(error)) = check() else { panic!("it was noted") };
        let Shortage::Device { requested_bytes, message } = error.shortage else {
            panic!("it is a device's")
        };
        assert_eq!(requested_bytes, Some(Bytes::mib(1)));
        assert!(!message.contains("cubecl_runtime"), "{message}");
        assert!(check().is_ok());
    }

    #[test]
    fn what_is_not_for_want_of_memory_is_told_as_what_it_is() {
        let error =
            failure("DriverError(CUDA_ERROR_ILLEGAL_ADDRESS, \"an illegal memory access was encountered\")");
        assert!(matches!(error, TrainError::Device { .. }), "{error}");
        assert_eq!(requested("failed to reserve many bytes"), None);
    }
}
