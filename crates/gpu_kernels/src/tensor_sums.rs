//! How a sum over many tensors is shared by cubes. A build without CUDA knows it too, to plan.

/// Vectors that each thread sums.
pub(crate) const OF_THREAD: usize = 16;

/// Elements of a vector where these divide the tensor, and threads of a cube.
const WIDTH: usize = 4;
const THREADS: usize = 256;

/// How many partial sums a sum over all elements of tensors has, by the elements of each tensor.
pub fn tensor_sums(elements: impl IntoIterator<Item = usize>) -> usize {
    let of_one = |elements: usize| {
        let width = if elements.is_multiple_of(WIDTH) { WIDTH } else { 1 };
        (elements / width).div_ceil(OF_THREAD * THREADS)
    };
    elements.into_iter().map(of_one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tensor_has_its_own_sums() {
        assert_eq!(tensor_sums([1, 16 << 10, (16 << 10) + 4, 4097]), 1 + 1 + 2 + 2);
        assert_eq!(tensor_sums([]), 0);
    }
}
