//! Failures of a GPU, which Burn reports on its own device thread.
//!
//! The device thread panics, catches the panic and continues. The training thread gets one error at its next read, and
//! that error names a consequence and not the cause. It may also read memory that was never written. So the panic hook
//! of the program notes the first panic here, and every boundary of a step checks for it.

use std::{
    any::Any,
    cell::Cell,
    panic,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use burn::tensor::Device;
use oomph_config::DeviceName;
use oomph_core::{Bytes, current_point};
use oomph_doctor::{is_after_a_failure, is_of_device, is_out_of_memory, without_backtrace};

use crate::{
    EngineError,
    shortage::{Exhausted, Shortage},
};

/// The prefix of the names of Burn's device threads (cubecl-common, `device/handle/channel.rs`). The type and the index
/// of the device follow: `DSD-0-1` is the thread of `cuda:1`.
const DEVICE_THREADS: &str = "DSD-";

/// The time between two looks of [`poll`]: a look waits until the device thread has handled its queue.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// The first failure of a device thread that was not reported yet.
struct Noted {
    thread: String,
    message: String,
}

impl Noted {
    /// The index of its device.
    fn index(&self) -> Option<usize> {
        self.thread.rsplit('-').next()?.parse().ok()
    }
}

static IS_NOTED: AtomicBool = AtomicBool::new(false);
static HAS_FAILED: AtomicBool = AtomicBool::new(false);
static NOTED: Mutex<Vec<Noted>> = Mutex::new(Vec::new());

thread_local! {
    /// The GPUs whose failures this thread learns of.
    static CONCERN: Cell<Concern> = const { Cell::new(Concern::All) };
    /// The last look of [`poll`] in this thread.
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The GPUs whose failures end the work of a thread.
#[derive(Clone, Copy)]
enum Concern {
    All,
    Gpu(DeviceName),
    None,
}

impl Concern {
    fn includes(self, failed: &Noted) -> bool {
        match self {
            Self::All => true,
            Self::Gpu(DeviceName::Cuda(index)) => failed.index() == Some(index),
            // A training has one Vulkan device at most.
            Self::Gpu(_) => true,
            Self::None => false,
        }
    }

    fn gpu(self) -> Option<DeviceName> {
        if let Self::Gpu(name) = self { Some(name) } else { None }
    }

    /// Runs `work` with this concern, and restores the previous one, even if `work` panics.
    fn during<R>(self, work: impl FnOnce() -> R) -> R {
        struct Restore(Concern);
        impl Drop for Restore {
            fn drop(&mut self) {
                CONCERN.set(self.0);
            }
        }
        let _restore = Restore(CONCERN.replace(self));
        work()
    }
}

fn noted() -> MutexGuard<'static, Vec<Noted>> {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the panic of a device thread, so that the next [`check`] ends the training. The panic hook of the program
/// calls it; `oomph::run` installs such a hook. Panics of other threads are ignored.
pub fn note_panic(thread: Option<&str>, message: &str) {
    let Some(thread) = thread.filter(|name| name.starts_with(DEVICE_THREADS)) else { return };
    let mut noted = noted();
    if !is_after_a_failure(message) && noted.iter().all(|earlier| earlier.thread != thread) {
        noted.push(Noted { thread: thread.to_owned(), message: message.to_owned() });
        IS_NOTED.store(true, Relaxed);
    }
}

/// Checks whether a device failed since the last check. Within [`on`] only that device counts.
///
/// # Errors
/// The failure. Its phase and scope are the current ones, which may be later than the failed operation.
pub fn check() -> Result<(), EngineError> {
    if !IS_NOTED.load(Relaxed) {
        return Ok(());
    }
    let concern = CONCERN.get();
    let mut noted = noted();
    let Some(index) = noted.iter().position(|failed| concern.includes(failed)) else { return Ok(()) };
    let failed = noted.remove(index);
    IS_NOTED.store(!noted.is_empty(), Relaxed);
    drop(noted);
    // Without a concern, there are only CUDA cards: see `on`.
    let gpu = concern.gpu().or_else(|| failed.index().map(DeviceName::Cuda));
    Err(failure(gpu, &failed.message))
}

/// Runs `work` for these devices. If it is one GPU, failures of others are left to the threads that work for them.
pub fn on<R>(devices: &[DeviceName], work: impl FnOnce() -> R) -> R {
    match devices {
        [name @ (DeviceName::Cuda(_) | DeviceName::Vulkan(_))] => Concern::Gpu(*name).during(work),
        _ => work(),
    }
}

/// Runs `work` that uses no GPU, such as a plan. A GPU that goes on failing meanwhile does not end it, and is not
/// reported again afterwards.
pub fn apart<R>(work: impl FnOnce() -> R) -> R {
    let done = Concern::None.during(work);
    noted().clear();
    IS_NOTED.store(false, Relaxed);
    done
}

/// Whether a GPU of this process ever failed, or ran out of memory.
///
/// Its device thread may still work through its queue, and compile kernels, when the process ends.
pub fn has_happened() -> bool {
    HAS_FAILED.load(Relaxed)
}

/// Waits until all operations in the queue of the device have run.
///
/// # Errors
/// The failure that the device thread reported, or else the error of the wait.
pub fn settle(device: &Device) -> Result<(), EngineError> {
    let synced = device.sync();
    check()?;
    synced.map_err(|error| of_this_thread(&error.to_string()))
}

/// As [`look`] at each of the devices, but at most once a second. In between it is a [`check`].
///
/// # Errors
/// The first failure.
pub fn poll<'a>(devices: impl IntoIterator<Item = &'a Device>) -> Result<(), EngineError> {
    let now = Instant::now();
    // Work of less than a second needs no look, since it ends in a read.
    let last = LOOKED.get().unwrap_or_else(|| {
        LOOKED.set(Some(now));
        now
    });
    if now.duration_since(last) < POLL_EVERY {
        return check();
    }
    let looked = devices.into_iter().try_for_each(look);
    LOOKED.set(Some(Instant::now()));
    looked
}

/// Looks for launches and copies of this thread that failed. Burn reports them only at the next read, which may be many
/// steps later. A look waits for the device thread, but not for running kernels.
///
/// # Errors
/// The failure.
pub fn look(device: &Device) -> Result<(), EngineError> {
    // Burn panics with the failure.
    let looked = panic::catch_unwind(panic::AssertUnwindSafe(|| device.flush()));
    check()?;
    looked.map_err(|panicked| of_this_thread(text(&*panicked)))
}

/// Runs `work`. If it panics because a device failed, the failure of the device becomes the error.
///
/// # Errors
/// The errors of `work`, and the failure of the device.
///
/// # Panics
/// Panics if `work` panics and no device failed.
pub fn caught<T, E: From<EngineError>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    // After a failure the caller reads only what `work` saved before it.
    match panic::catch_unwind(panic::AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(panicked) => match of_panic(&*panicked) {
            Some(failure) => Err(failure.into()),
            None => panic::resume_unwind(panicked),
        },
    }
}

/// The failure of a device that caused a panic: the one that the device thread reported, or the one that the panic
/// names. `None` if no device failed.
pub fn of_panic(panicked: &(dyn Any + Send)) -> Option<EngineError> {
    let named = || is_of_device(text(panicked)).then(|| of_this_thread(text(panicked)));
    check().err().or_else(named)
}

fn text(panicked: &(dyn Any + Send)) -> &str {
    let text = panicked.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panicked.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

/// The failure behind an error of a read: the one that the device thread reported, or else the error itself.
pub(crate) fn behind(message: &str) -> EngineError {
    check().err().unwrap_or_else(|| of_this_thread(message))
}

/// The failure of the device that this thread works for.
fn of_this_thread(message: &str) -> EngineError {
    failure(CONCERN.get().gpu(), message)
}

/// Converts a message of a GPU, whose name may be known, to an error: [`EngineError::Exhausted`] if it ran out of
/// memory.
fn failure(device: Option<DeviceName>, message: &str) -> EngineError {
    HAS_FAILED.store(true, Relaxed);
    let shown = without_backtrace(message);
    if !is_out_of_memory(message) {
        return EngineError::Device { device, message: shown };
    }
    let shortage = Shortage::Device {
        device,
        requested_bytes: bytes_after("failed to reserve ", message)
            .or_else(|| bytes_after("Buffer size ", message)),
        page_bytes: bytes_after("out of device memory allocating ", message),
        message: shown,
    };
    Box::new(Exhausted::new(shortage, current_point().phase(), current_point().scope())).into()
}

/// The number of bytes in `failed to reserve 1048576 bytes of device memory`, after `before`. CUDA's messages and Vulkan's differ.
fn bytes_after(before: &str, message: &str) -> Option<Bytes> {
    let (_, rest) = message.split_once(before)?;
    rest.split(' ').next()?.parse().ok().map(Bytes::new)
}

#[cfg(test)]
mod tests {
    use oomph_model::{DeviceError, ModelError};

    use super::*;
    use crate::record::RecordError;

    const FULL: &str = "failed to reserve 1048576 bytes of device memory: out of device memory allocating 2097152 \
                        bytes\n   0: cubecl_runtime::memory";

    /// The failures are those of the whole process.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn the_first_failure_of_a_device_thread_counts() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        note_panic(Some("main"), FULL);
        note_panic(None, FULL);
        assert!(check().is_ok());
        note_panic(Some("DSD-0-0"), FULL);
        note_panic(Some("DSD-0-0"), "another");
        let Err(EngineError::Exhausted(error)) = check() else { panic!("it was noted") };
        let Shortage::Device { device, requested_bytes, page_bytes, message } = error.shortage else {
            panic!("it is a device's")
        };
        assert_eq!(device, Some(DeviceName::Cuda(0)));
        assert_eq!((requested_bytes, page_bytes), (Some(Bytes::mib(1)), Some(Bytes::mib(2))));
        assert!(!message.contains("cubecl_runtime"), "{message}");
        assert!(check().is_ok());
    }

    #[test]
    fn a_tensor_too_large_for_vulkan_is_a_shortage_of_its_device() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let text = "wgpu error: Validation Error\n\nCaused by:\n  In Device::create_buffer\n    Buffer size 4194304 is \
                    greater than the maximum buffer size (2147483647)\n";
        let vulkan = DeviceName::Vulkan(0);
        note_panic(Some("DSD-4-0"), text);
        let Err(EngineError::Exhausted(error)) = on(&[vulkan], check) else { panic!("it was noted") };
        let Shortage::Device { device, requested_bytes, .. } = error.shortage else {
            panic!("it is a device's")
        };
        assert_eq!((device, requested_bytes), (Some(vulkan), Some(Bytes::mib(4))));
    }

    #[test]
    fn a_failed_read_is_a_failure_of_the_device() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |reason: &str| ModelError::Device(DeviceError { reason: reason.to_owned() });
        assert!(matches!(failed(FULL).into(), EngineError::Exhausted(_)));
        let lost = "StorageAccess(Read(\"The server is in an invalid state\\nCaused by:\\n  A launch error happened\\n\
                    Caused by:\\n  DriverError(CUDA_ERROR_UNKNOWN)\\nBacktrace\\nNo backtrace available\\nA launch\"))";
        let error = EngineError::from(RecordError::from(failed(lost)));
        assert_eq!(error.to_string(), "the device failed: DriverError(CUDA_ERROR_UNKNOWN)");
        // What the device thread noted is the cause.
        note_panic(Some("DSD-0-0"), FULL);
        assert!(matches!(failed(lost).into(), EngineError::Exhausted(_)));
    }

    #[test]
    fn a_failure_other_than_out_of_memory_stays_a_device_failure() {
        let error = failure(
            None,
            "DriverError(CUDA_ERROR_ILLEGAL_ADDRESS, \"an illegal memory access was encountered\")",
        );
        assert!(matches!(error, EngineError::Device { .. }), "{error}");
        assert_eq!(bytes_after("failed to reserve ", "failed to reserve many bytes"), None);
    }

    #[test]
    fn a_thread_learns_of_its_own_device_alone() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        note_panic(Some("DSD-0-1"), FULL);
        assert!(on(&[DeviceName::Cuda(0)], check).is_ok());
        assert!(on(&[DeviceName::Cuda(1)], check).is_err());
        assert!(check().is_ok());
    }

    #[test]
    fn a_device_that_goes_on_failing_ends_no_plan() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        note_panic(Some("DSD-0-0"), FULL);
        assert!(apart(check).is_ok());
        assert!(check().is_ok());
    }

    #[test]
    fn a_panic_that_names_a_failure_of_the_device_becomes_an_error() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let read = "bytes: host access failed: Read(\"The server is in an invalid state\\nCaused by:\\n  \
                    DriverError(CUDA_ERROR_LAUNCH_FAILED, \\\"unspecified launch failure\\\")\\nBacktrace\")";
        let failed: Result<(), EngineError> = caught(|| panic!("{read}"));
        let error = failed.unwrap_err().to_string();
        assert!(
            error.ends_with("DriverError(CUDA_ERROR_LAUNCH_FAILED, \"unspecified launch failure\")"),
            "{error}"
        );
        let bug = panic::catch_unwind(|| caught::<(), EngineError>(|| panic!("index out of bounds")));
        assert!(bug.is_err());
    }
}
