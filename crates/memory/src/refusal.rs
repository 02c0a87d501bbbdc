//! Allocations that the system refused.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, UNIX_EPOCH},
};

/// The bytes of the last refused allocation.
static BYTES: AtomicU64 = AtomicU64::new(0);
/// When it was refused, in milliseconds of Unix time.
static AT: AtomicU64 = AtomicU64::new(0);

/// How long a refusal explains the end of the process. Some callers go on without the memory.
const LASTS: Duration = Duration::from_secs(30);

fn now() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |time| time.as_millis() as u64)
}

/// Notes a refusal. Called by the allocator: allocates nothing.
pub(crate) fn note(bytes: usize) {
    BYTES.store(bytes as u64, Relaxed);
    AT.store(now(), Relaxed);
}

/// The bytes of the last allocation that the system refused this process in the last 30 seconds.
///
/// A handler of signals may call it: Rust aborts a process that cannot do without the memory.
pub fn refused_bytes() -> Option<u64> {
    let is_recent = now().saturating_sub(AT.load(Relaxed)) <= LASTS.as_millis() as u64;
    Some(BYTES.load(Relaxed)).filter(|bytes| is_recent && *bytes > 0)
}

/// Whether this process has a limit of its memory (`ulimit -v`, `ulimit -d`).
pub fn has_process_limit() -> bool {
    crate::process_limit::memory_limit(&|path| std::fs::read_to_string(path).ok()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_forgotten_after_a_while() {
        note(17);
        assert_eq!(refused_bytes(), Some(17));
        AT.fetch_sub(LASTS.as_millis() as u64 + 1000, Relaxed);
        assert_eq!(refused_bytes(), None);
    }
}
