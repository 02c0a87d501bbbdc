use burn::{
    module::Module,
    tensor::{Tensor, module::max_pool2d},
};

use crate::{LayerKind, ModelError, Pass};

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

    /// Takes the maxima.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where the image is empty.
    pub fn forward(&self, input: Tensor<4>, pass: &mut Pass) -> Result<Tensor<4>, ModelError> {
        let dims = input.dims();
        pass.expect_shape(dims[2] * dims[3] > 0, "[B, C, H ≥ 1, W ≥ 1]", &dims)?;
        let padding = [self.kernel / 2; 2];
        let output = max_pool2d(input, [self.kernel; 2], [self.stride; 2], padding, [1, 1], false);
        pass.layer(LayerKind("MaxPool2d"), &dims, &output.dims(), 0);
        Ok(output)
    }
}

/// The mean of each channel: `[B, C, H, W]` to `[B, C]`.
pub fn global_average(input: Tensor<4>, pass: &mut Pass) -> Tensor<2> {
    let dims @ [batch, channels, height, width] = input.dims();
    let output = input.reshape([batch, channels, height * width]).mean_dim(2).reshape([batch, channels]);
    pass.layer(LayerKind("GlobalAverage"), &dims, &output.dims(), 0);
    output
}
