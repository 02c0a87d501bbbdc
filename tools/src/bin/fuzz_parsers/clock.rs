//! The processor time of threads, which a busy machine does not lengthen.

use std::time::Duration;

/// The processor time of a clock, zero where the system has none.
fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the system writes to `time`, which lives on.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The processor time of this thread.
pub(crate) fn own() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The processor time of a thread of this process that has not ended.
pub(crate) fn of(thread: libc::pthread_t) -> Duration {
    let mut clock = 0;
    // SAFETY: the caller's thread exists, and the system writes to `clock`, which lives on.
    if unsafe { libc::pthread_getcpuclockid(thread, &raw mut clock) } != 0 {
        return Duration::ZERO;
    }
    read(clock)
}
