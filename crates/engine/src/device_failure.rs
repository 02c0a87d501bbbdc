//! Failures of a GPU, which Burn reports on its own device thread.
//!
//! The device thread panics, catches the panic and continues. The training thread gets one error at its next read, and
//! that error names a consequence and not the cause. It may also read memory that was never written. So the panic hook
//! of the program notes the first panic here, and every boundary of a step checks for it.

use std::{
    panic,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use burn::tensor::Device;
use oomph_core::{Bytes, current_point};
use oomph_doctor::{is_after_a_failure, is_out_of_memory, without_backtrace};

use crate::{
    EngineError,
    shortage::{Exhausted, Shortage},
};

/// The prefix of the names of Burn's device threads (cubecl-common, `device/handle/channel.rs`).
const DEVICE_THREADS: &str = "DSD-";

static IS_NOTED: AtomicBool = AtomicBool::new(false);
static FIRST: Mutex<Option<String>> = Mutex::new(None);

/// Notes the panic of a device thread, so that the next [`check`] ends the training. The panic hook of the program
/// calls it; `oomph::run` installs such a hook. Panics of other threads are ignored.
pub fn note_panic(thread: Option<&str>, message: &str) {
    if thread.is_some_and(|name| name.starts_with(DEVICE_THREADS)) && !is_after_a_failure(message) {
        FIRST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| message.to_owned());
        IS_NOTED.store(true, Relaxed);
    }
}

/// Checks whether a device failed since the last check.
///
/// # Errors
/// The failure. Its phase and scope are the current ones, which may be later than the failed operation.
pub fn check() -> Result<(), EngineError> {
    if !IS_NOTED.load(Relaxed) {
        return Ok(());
    }
    IS_NOTED.store(false, Relaxed);
    let first = FIRST.lock().unwrap_or_else(PoisonError::into_inner).take();
    first.map_or(Ok(()), |message| Err(failure(&message)))
}

/// Waits until all operations in the queue of the device have run.
///
/// # Errors
/// The failure that the device thread reported, or else the error of the wait.
pub fn settle(device: &Device) -> Result<(), EngineError> {
    let synced = device.sync();
    check()?;
    synced.map_err(|error| failure(&error.to_string()))
}

/// Runs `work`. If it panics because a failed device never wrote a tensor, the failure of the device becomes the error.
///
/// # Errors
/// The errors of `work`, and the failure that the device thread reported.
///
/// # Panics
/// Panics if `work` panics and no device failed.
pub fn caught<T, E: From<EngineError>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    // After a failure the caller reads only what `work` saved before it.
    match panic::catch_unwind(panic::AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(panicked) => match check() {
            Err(failure) => Err(failure.into()),
            Ok(()) => panic::resume_unwind(panicked),
        },
    }
}

/// Converts a message of the device to an error: [`EngineError::Exhausted`] if the device ran out of memory.
pub fn failure(message: &str) -> EngineError {
    let shown = without_backtrace(message);
    if !is_out_of_memory(message) {
        return EngineError::Device { message: shown };
    }
    let shortage = Shortage::Device { requested_bytes: requested(message), message: shown };
    Box::new(Exhausted::new(shortage, current_point().phase(), current_point().scope())).into()
}

/// The number of bytes in `failed to reserve 1048576 bytes of device memory`.
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
        let Err(EngineError::Exhausted(error)) = check() else { panic!("it was noted") };
        let Shortage::Device { requested_bytes, message } = error.shortage else {
            panic!("it is a device's")
        };
        assert_eq!(requested_bytes, Some(Bytes::mib(1)));
        assert!(!message.contains("cubecl_runtime"), "{message}");
        assert!(check().is_ok());
    }

    #[test]
    fn a_failure_other_than_out_of_memory_stays_a_device_failure() {
        let error =
            failure("DriverError(CUDA_ERROR_ILLEGAL_ADDRESS, \"an illegal memory access was encountered\")");
        assert!(matches!(error, EngineError::Device { .. }), "{error}");
        assert_eq!(requested("failed to reserve many bytes"), None);
    }
}
