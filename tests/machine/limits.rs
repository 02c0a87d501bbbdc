//! Limits that mean the same on every machine.

/// What matrix products hold for ever on this machine beyond what they hold where the limits in these tests were written,
/// which is 3 MiB: each thread has a buffer of the size of its core's cache.
pub(crate) fn held_here() -> i64 {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) + 1;
    (threads * gemm_common::cache::CACHE_INFO[1].cache_bytes) as i64 - (3 << 20)
}

/// A limit of so many KiB, and of as much more as matrix products hold on this machine.
pub(crate) fn limit(kib: i64) -> String {
    ((kib << 10) + held_here()).to_string()
}
