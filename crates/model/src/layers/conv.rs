use burn::{
    module::{Module, Param},
    tensor::{DType, Tensor, activation::relu, module::conv2d},
};

use oomph_kernels::{
    cast,
    conv::{self, Convolved, Slide},
    differentiable, ranked,
};
use oomph_onnx::{Attribute, Graph, Value};

use super::normed::{Form, Normed};
use crate::{AnyTensor, Init, Kernels, LayerKind, ModelError, Pass, Policy, autodiff};

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
        Ok(self.convolved(input, pass)?.into_tensor())
    }

    /// The output for a normalisation, which is computed together with it off the graph.
    ///
    /// # Errors
    /// As those of [`forward`](Self::forward).
    pub fn convolved(&self, input: Tensor<4>, pass: &mut Pass) -> Result<Convolved, ModelError> {
        let weight = self.weight_for(&input.dims(), pass)?;
        let input = pass.policy().narrow(input);
        let dims = input.dims();
        // On a GPU, Burn's gradients of some convolutions are wrong (`crates/gpu_kernels/tests/conv.rs`). In 16 bits the CPU's
        // products are ours: Burn's of fp16 are three times as slow as through 32 bits.
        let is_ours = match pass.policy().kernels {
            Kernels::Gpu => true,
            Kernels::Cpu => pass.policy().lean || input.dtype() != DType::F32,
            Kernels::Composed => pass.policy().lean,
        };
        let output = if is_ours {
            self.lean(input, weight, pass.policy())
        } else {
            conv2d(input, pass.policy().narrow(weight), None, self.slide().options()).into()
        };
        Ok(self.done(dims, output, pass))
    }

    /// Applies the convolution to the rectified `input`. Backward keeps the input of the normalisation, and recomputes the
    /// rest.
    ///
    /// # Errors
    /// As those of [`forward`](Self::forward).
    pub fn convolved_rectified(&self, input: Normed, pass: &mut Pass) -> Result<Convolved, ModelError> {
        let (dims, output): (_, Convolved) = match input.into_form() {
            Form::Made(normed) => return self.convolved(relu(*normed), pass),
            Form::Deferred(deferred) => {
                let dims = deferred.dims();
                (dims, deferred.rectified_convolution(self.weight_for(&dims, pass)?, self.slide()).into())
            }
            Form::Plain(plain) => {
                let dims = plain.dims();
                (dims, plain.rectified_convolution(self.weight_for(&dims, pass)?, self.slide()))
            }
        };
        Ok(self.done(dims, output, pass))
    }

    /// Adds the layer to an ONNX graph.
    pub fn to_onnx(&self, graph: &mut Graph, input: &Value) -> Value {
        let dims @ [_, _, height, width] = self.weight.val().dims();
        let weight = graph.parameter("weight", &dims);
        let [stride, padding] = [self.stride, self.padding].map(|size| size as i64);
        graph.node(
            "Conv",
            &[input, &weight],
            [
                ("kernel_shape", Attribute::Ints(vec![height as i64, width as i64])),
                ("strides", Attribute::Ints(vec![stride; 2])),
                ("pads", Attribute::Ints(vec![padding; 4])),
            ],
        )
    }

    fn weight_for(&self, dims: &[usize; 4], pass: &Pass) -> Result<Tensor<4>, ModelError> {
        let weight = self.weight.val();
        let [_, channels, kernel, _] = weight.dims();
        let fits = dims[1] == channels && dims[2..].iter().all(|size| size + 2 * self.padding >= kernel);
        pass.expect_shape(fits, &format!("[B, {channels}, H, W] for weight {:?}", weight.dims()), dims)?;
        Ok(weight)
    }

    fn slide(&self) -> Slide {
        Slide { stride: self.stride, padding: self.padding }
    }

    fn done(&self, input: [usize; 4], output: Convolved, pass: &mut Pass) -> Convolved {
        let parameters = self.weight.val().shape().num_elements();
        pass.layer(LayerKind("Conv2d"), &input, &output.dims(), parameters);
        output
    }

    /// Applies the convolution; backward keeps the input alone.
    fn lean(&self, input: Tensor<4>, weight: Tensor<4>, policy: Policy) -> Convolved {
        if !input.device().is_autodiff() && !weight.device().is_autodiff() {
            // Backward needs nothing: the operation may free its inputs.
            return Convolved::plain(input, weight, self.slide(), policy.kernels);
        }
        let (dims, dtype, slide) = (input.dims(), input.dtype(), self.slide());
        let [kept, kept_weight] = [input.clone(), weight.clone()].map(autodiff::inner);
        let kernels = policy.kernels;
        let output = conv::conv2d(kept.clone(), kept_weight.clone(), slide, kernels);
        // Only the gradient of the weight needs the input: that of a frozen weight is not wanted.
        let kept = autodiff::wants_gradient(&weight).then_some(kept);
        let output: Tensor<4> =
            ranked(differentiable([input.into(), weight.into()], output.into(), move |gradient, wanted| {
                let gradient = ranked(gradient);
                // The gradient of the weight is wanted of a trained weight alone.
                let gradients = conv::conv2d_backward(
                    || kept.expect("kept for a trained weight"),
                    dims,
                    kept_weight,
                    gradient,
                    slide,
                    wanted,
                    kernels,
                );
                let input = gradients.input.map(|gradient| cast(gradient, dtype, kernels));
                [input.map(AnyTensor::from), gradients.weight.map(AnyTensor::from)]
            }));
        output.into()
    }
}
