//! Answers that are written where the caller wants them.

/// Writes an answer through a pointer of the caller; `None` if it is null.
pub(crate) fn put<T>(target: *mut T, value: T) -> Option<()> {
    if target.is_null() {
        return None;
    }
    // SAFETY: the caller passes a pointer that it may write, as `cuda.h`, `nccl.h` and `nvml.h` demand.
    unsafe { target.write(value) };
    Some(())
}
