use burn::{
    module::Module,
    tensor::{DType, Tensor, activation::relu, module::max_pool2d},
};
use oomph_kernels::{
    cast, differentiable,
    pool::{Maxima, Windows},
    ranked,
};
use oomph_onnx::{Attribute, Graph, Value};

use super::normed::{Form, Normed};
use crate::{Kernels, LayerKind, ModelError, Pass, Policy, autodiff};

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

    /// Takes the maxima. Backward keeps their positions, and no values.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where the image is empty.
    pub fn forward(&self, input: Tensor<4>, pass: &mut Pass) -> Result<Tensor<4>, ModelError> {
        let dims = self.checked(input.dims(), pass)?;
        let output = if pass.policy().lean {
            let (windows, dtype, kernels) = (self.windows(), input.dtype(), pass.policy().kernels);
            let Maxima { values, positions } = windows.maxima(autodiff::inner(input.clone()), kernels);
            ranked(differentiable([input.into()], values.into(), move |gradient, _| {
                [Some(windows.backward(ranked(gradient), positions, dims, dtype, kernels).into())]
            }))
        } else {
            let Windows { kernel, stride, padding } = self.windows();
            max_pool2d(input, [kernel; 2], [stride; 2], [padding; 2], [1; 2], false)
        };
        Ok(Self::done(dims, output, pass))
    }

    /// Takes the maxima of the rectified `input`. Backward keeps their positions and the input of the normalisation.
    ///
    /// # Errors
    /// As those of [`forward`](Self::forward).
    pub fn forward_rectified(&self, input: Normed, pass: &mut Pass) -> Result<Tensor<4>, ModelError> {
        match input.into_form() {
            Form::Made(normed) => self.forward(relu(*normed), pass),
            Form::Deferred(deferred) => {
                let dims = self.checked(deferred.dims(), pass)?;
                let output = deferred.rectified_maxima(self.windows());
                Ok(Self::done(dims, output, pass))
            }
            Form::Plain(plain) => {
                let dims = self.checked(plain.dims(), pass)?;
                Ok(Self::done(dims, plain.rectified_maxima(self.windows()), pass))
            }
        }
    }

    /// Adds the layer to an ONNX graph.
    pub fn to_onnx(&self, graph: &mut Graph, input: &Value) -> Value {
        let [kernel, stride, padding] = [self.kernel, self.stride, self.kernel / 2].map(|size| size as i64);
        graph.node(
            "MaxPool",
            &[input],
            [
                ("kernel_shape", Attribute::Ints(vec![kernel; 2])),
                ("strides", Attribute::Ints(vec![stride; 2])),
                ("pads", Attribute::Ints(vec![padding; 4])),
            ],
        )
    }

    fn checked(&self, dims: [usize; 4], pass: &Pass) -> Result<[usize; 4], ModelError> {
        pass.expect_shape(dims[2] * dims[3] > 0, "[B, C, H ≥ 1, W ≥ 1]", &dims)?;
        Ok(dims)
    }

    fn done(input: [usize; 4], output: Tensor<4>, pass: &mut Pass) -> Tensor<4> {
        pass.layer(LayerKind("MaxPool2d"), &input, &output.dims(), 0);
        output
    }

    fn windows(&self) -> Windows {
        Windows { kernel: self.kernel, stride: self.stride, padding: self.kernel / 2 }
    }
}

/// The mean of each channel: `[B, C, H, W]` to `[B, C]` of 32 bits.
pub fn global_average(input: Tensor<4>, pass: &mut Pass) -> Tensor<2> {
    let dims @ [batch, channels, height, width] = input.dims();
    let policy = pass.policy();
    let output = if policy.lean && policy.kernels == Kernels::Gpu {
        average_of_pixels(input, policy)
    } else {
        // A sum: in 32 bits.
        let input = policy.widen(input);
        input.reshape([batch, channels, height * width]).mean_dim(2).reshape([batch, channels])
    };
    pass.layer(LayerKind("GlobalAverage"), &dims, &output.dims(), 0);
    output
}

/// The mean of each channel of an image that lies channels-last, without a copy. The gradient is a view of one pixel.
fn average_of_pixels(input: Tensor<4>, policy: Policy) -> Tensor<2> {
    let (dims @ [batch, channels, height, width], dtype) = (input.dims(), input.dtype());
    let count = height * width;
    // A sum: in 32 bits.
    let pixels = cast(autodiff::inner(input.clone()), DType::F32, policy.kernels).permute([0, 2, 3, 1]);
    let output = pixels.reshape([batch, count, channels]).mean_dim(1).reshape([batch, channels]);
    ranked(differentiable([input.into()], output.into(), move |gradient, _| {
        let of_pixel = ranked::<2>(gradient).div_scalar(count as f32);
        let of_pixel = cast(of_pixel, dtype, policy.kernels).reshape([batch, channels, 1, 1]);
        [Some(of_pixel.expand(dims).into())]
    }))
}
