//! Memory that is brought into the cache before it is read, and memory that leaves it. The processor foresees reads that go on and on,
//! but not pieces of rows that are far apart.

use burn::tensor::Tensor;
use burn_flex::Flex;

use crate::{
    any_tensor::AnyTensor,
    backends::primitive_on,
    stored_float::{StoredFloats, with_values},
};

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

/// Takes the elements of a plain tensor out of all caches of the processor, for measurements: a model with tensors so large that they
/// displace each other reads them from memory at each use. Nothing happens to a tensor on a GPU, and on other processors than x86-64.
pub fn leave_caches<const D: usize>(tensor: &Tensor<D>) {
    if let Some(tensor) = primitive_on::<Flex>(&AnyTensor::from(tensor.clone())) {
        with_values!(StoredFloats::of(&tensor), values => leave(values));
    }
}

fn leave<E>(elements: &[E]) {
    #[cfg(target_arch = "x86_64")]
    for line in elements.chunks((LINE / size_of::<E>()).max(1)) {
        // SAFETY: every x86-64 has the instruction. It writes the line back, so that no element changes.
        unsafe { std::arch::x86_64::_mm_clflush(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = elements;
}
