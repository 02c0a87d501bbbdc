use burn::tensor::{
    DType, Int, Tensor,
    module::{max_pool2d_with_indices, max_pool2d_with_indices_backward},
};

/// The windows of a max-pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaxWindow {
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) padding: [usize; 2],
}

impl MaxWindow {
    /// The maxima of a plain tensor, and the position of each.
    pub(super) fn maxima(self, input: Tensor<4>) -> (Tensor<4>, Tensor<4, Int>) {
        let Self { kernel, stride, padding } = self;
        max_pool2d_with_indices(input, kernel, stride, padding, [1, 1], false)
    }

    /// Puts each gradient at the position of its maximum. `input` and `dtype` are shape and format of the input.
    pub(super) fn backward(
        self,
        gradient: Tensor<4>,
        indices: Tensor<4, Int>,
        input: [usize; 4],
        dtype: DType,
    ) -> Tensor<4> {
        let Self { kernel, stride, padding } = self;
        // Only shape and format of the input are read: a view of one element has them.
        let like = Tensor::<4>::zeros([1; 4], (&gradient.device(), dtype)).expand(input);
        max_pool2d_with_indices_backward(like, kernel, stride, padding, [1, 1], false, gradient, indices)
    }
}
