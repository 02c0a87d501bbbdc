use burn::{
    module::Module,
    tensor::{
        DType, Int, Tensor,
        activation::relu,
        module::{max_pool2d, max_pool2d_with_indices, max_pool2d_with_indices_backward},
    },
};

use super::normed::{Form, Normed};
use crate::{LayerKind, ModelError, Pass, autodiff, differentiable, policy::ranked};

/// The maximum over windows of an image.
///
/// # Shapes
/// - input `[B, C, H, W]`
/// - output `[B, C, (H + 2p − k)/s + 1, (W + 2p − k)/s + 1]` with kernel k, stride s, padding p (of −∞)
#[derive(Module, Debug)]
pub struct MaxPool2d {
    #[module(skip)]
    kernel: usize,
    #[module(skip)]
    stride: usize,
}

impl MaxPool2d {
    /// Windows of `kernel` × `kernel`, `stride` apart, padded by half a kernel rounded down.
    pub fn new(kernel: usize, stride: usize) -> Self {
        Self { kernel, stride }
    }

    /// Takes the maxima. For backward it keeps where they were, and no values.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where the image is empty.
    pub fn forward(&self, input: Tensor<4>, pass: &mut Pass) -> Result<Tensor<4>, ModelError> {
        let dims = self.checked(input.dims(), pass)?;
        let output = if pass.policy().lean {
            let (output, indices) = self.maxima(autodiff::inner(input.clone()));
            let (window, dtype) = (self.window(), input.dtype());
            ranked(differentiable([input.into()], output.into(), move |gradient, _| {
                [Some(window.backward(ranked(gradient), indices, dims, dtype).into())]
            }))
        } else {
            let Window { kernel, stride, padding } = self.window();
            max_pool2d(input, kernel, stride, padding, [1, 1], false)
        };
        Ok(Self::done(dims, output, pass))
    }

    /// Takes the maxima of the rectified `input`. For backward it keeps where they were, and what was normalised.
    ///
    /// # Errors
    /// As those of [`forward`](Self::forward).
    pub fn forward_rectified(&self, input: Normed, pass: &mut Pass) -> Result<Tensor<4>, ModelError> {
        match input.into_form() {
            Form::Made(normed) => self.forward(relu(*normed), pass),
            Form::Deferred(deferred) => {
                let dims = self.checked(deferred.dims(), pass)?;
                let output = deferred.rectified_maxima(self);
                Ok(Self::done(dims, output, pass))
            }
        }
    }

    fn checked(&self, dims: [usize; 4], pass: &Pass) -> Result<[usize; 4], ModelError> {
        pass.expect_shape(dims[2] * dims[3] > 0, "[B, C, H ≥ 1, W ≥ 1]", &dims)?;
        Ok(dims)
    }

    fn done(input: [usize; 4], output: Tensor<4>, pass: &mut Pass) -> Tensor<4> {
        pass.layer(LayerKind("MaxPool2d"), &input, &output.dims(), 0);
        output
    }

    pub(super) fn window(&self) -> Window {
        Window { kernel: [self.kernel; 2], stride: [self.stride; 2], padding: [self.kernel / 2; 2] }
    }

    /// Of a plain tensor, with the place of each.
    pub(super) fn maxima(&self, input: Tensor<4>) -> (Tensor<4>, Tensor<4, Int>) {
        let Window { kernel, stride, padding } = self.window();
        max_pool2d_with_indices(input, kernel, stride, padding, [1, 1], false)
    }
}

/// Where maxima are taken of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
}

impl Window {
    /// Puts each gradient where the maximum was.
    pub(super) fn backward(
        self,
        gradient: Tensor<4>,
        indices: Tensor<4, Int>,
        input: [usize; 4],
        dtype: DType,
    ) -> Tensor<4> {
        let Self { kernel, stride, padding } = self;
        // Of the input shape and format are read alone: a view of one element has them.
        let like = Tensor::<4>::zeros([1; 4], (&gradient.device(), dtype)).expand(input);
        max_pool2d_with_indices_backward(like, kernel, stride, padding, [1, 1], false, gradient, indices)
    }
}

/// The mean of each channel: `[B, C, H, W]` to `[B, C]` of 32 bits.
pub fn global_average(input: Tensor<4>, pass: &mut Pass) -> Tensor<2> {
    let dims @ [batch, channels, height, width] = input.dims();
    // A sum: in 32 bits.
    let input = pass.policy().widen(input);
    let output = input.reshape([batch, channels, height * width]).mean_dim(2).reshape([batch, channels]);
    pass.layer(LayerKind("GlobalAverage"), &dims, &output.dims(), 0);
    output
}
