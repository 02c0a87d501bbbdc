//! Memory that is brought into the cache before it is read. The processor foresees reads that go on and on, but not pieces of
//! rows that are far apart.

/// Bytes of a line of the cache.
pub(crate) const LINE: usize = 64;

/// Begins to bring the line of the first element into the second-level cache: in the first one it would displace what is multiplied.
/// It does nothing on other processors than x86-64.
#[inline(always)]
pub(crate) fn line<E>(elements: &[E]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: every x86-64 has the instruction, and it reads nothing into the program.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(elements.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = elements;
}

/// As [`line`], for all lines of the elements.
#[inline(always)]
pub(crate) fn all<E>(elements: &[E]) {
    for first in elements.chunks((LINE / size_of::<E>()).max(1)) {
        line(first);
    }
}
