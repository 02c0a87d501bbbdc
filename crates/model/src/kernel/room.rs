//! Room for results that are written piece by piece: zeros would be written first, and be in the way of what comes.

use std::mem::MaybeUninit;

/// A result of `count` elements, which `write` writes.
///
/// # Safety
/// `write` writes every element.
pub(super) unsafe fn written<E>(count: usize, write: impl FnOnce(&mut [MaybeUninit<E>])) -> Vec<E> {
    let mut elements = Vec::with_capacity(count);
    write(&mut elements.spare_capacity_mut()[..count]);
    // SAFETY: there is room for so many, and all of them are written.
    unsafe { elements.set_len(count) };
    elements
}
