use burn::{
    module::{Module, Param},
    tensor::{Tensor, module::conv2d, ops::ConvOptions},
};

use crate::{Init, LayerKind, ModelError, Pass};

/// A convolution over images without bias: y = w ∗ x.
///
/// # Shapes
/// - input `[B, C_in, H, W]`
/// - output `[B, C_out, (H + 2p − k)/s + 1, (W + 2p − k)/s + 1]` with kernel k, stride s, padding p
/// - `weight` `[C_out, C_in, k, k]`
///
/// Initialised by He et al. 2015 ("Delving Deep into Rectifiers", arXiv:1502.01852): normal with variance
/// 2 / (C_out k²), as torchvision's ResNets.
#[derive(Module, Debug)]
pub struct Conv2d {
    /// The kernels.
    pub weight: Param<Tensor<4>>,
    #[module(skip)]
    stride: usize,
    #[module(skip)]
    padding: usize,
}

impl Conv2d {
    /// A convolution of `kernel` × `kernel` with zero padding of half a kernel, rounded down.
    pub fn new(init: &Init, channels: [usize; 2], kernel: usize, stride: usize) -> Self {
        let [input, output] = channels;
        let deviation = (2.0 / (output * kernel * kernel) as f64).sqrt();
        Self {
            weight: init.normal("weight", [output, input, kernel, kernel], deviation),
            stride,
            padding: kernel / 2,
        }
    }

    /// Applies the convolution.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where the input has another number of channels, or is smaller than the kernel.
    pub fn forward(&self, input: Tensor<4>, pass: &mut Pass) -> Result<Tensor<4>, ModelError> {
        let dims = input.dims();
        let weight = self.weight.val();
        let [_, channels, kernel, _] = weight.dims();
        let parameters = weight.shape().num_elements();
        let fits = dims[1] == channels && dims[2..].iter().all(|size| size + 2 * self.padding >= kernel);
        pass.expect_shape(fits, &format!("[B, {channels}, H, W] for weight {:?}", weight.dims()), &dims)?;
        let options = ConvOptions::new([self.stride; 2], [self.padding; 2], [1, 1], 1);
        let output = conv2d(input, weight, None, options);
        pass.layer(LayerKind("Conv2d"), &dims, &output.dims(), parameters);
        Ok(output)
    }
}
