use burn::{
    module::{Module, Param},
    tensor::Tensor,
};

use oomph_onnx::{Attribute, Graph, Value};

use crate::{Init, LayerKind, ModelError, Pass};

/// A linear layer: y = x Wᵀ + b.
///
/// # Shapes
/// - input `[B, I]`, output `[B, O]`
/// - `weight` `[O, I]` (PyTorch's layout), `bias` `[O]`
///
/// Both start uniform in ±1/√I, as PyTorch's.
#[derive(Module, Debug)]
pub struct Linear {
    /// The matrix, with a row for each output.
    pub weight: Param<Tensor<2>>,
    /// The shift of each output.
    pub bias: Param<Tensor<1>>,
}

impl Linear {
    /// A layer from `features[0]` to `features[1]`.
    pub fn new(init: &Init, features: [usize; 2]) -> Self {
        let [input, output] = features;
        let bound = 1.0 / (input as f64).sqrt();
        Self {
            weight: init.uniform("weight", [output, input], bound),
            bias: init.uniform("bias", [output], bound),
        }
    }

    /// Applies the layer.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where the input has another number of features.
    pub fn forward(&self, input: Tensor<2>, pass: &mut Pass) -> Result<Tensor<2>, ModelError> {
        let weight = self.weight.val();
        let [outputs, features] = weight.dims();
        linear(input, weight, self.bias.val(), outputs * features + outputs, pass)
    }

    /// Adds the layer to an ONNX graph.
    pub fn to_onnx(&self, graph: &mut Graph, input: &Value) -> Value {
        let weight = graph.parameter("weight", &self.weight.val().dims());
        let bias = graph.parameter("bias", &self.bias.val().dims());
        graph.node("Gemm", &[input, &weight, &bias], [("transB", Attribute::Int(1))])
    }
}

/// x Wᵀ + b, reported as a layer with `parameters` elements of its own.
pub(crate) fn linear(
    input: Tensor<2>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    parameters: usize,
    pass: &mut Pass,
) -> Result<Tensor<2>, ModelError> {
    let dims = input.dims();
    let [_, features] = weight.dims();
    pass.expect_shape(dims[1] == features, &format!("[B, {features}]"), &dims)?;
    let policy = pass.policy();
    let product = policy.narrow(input).matmul(policy.narrow(weight).transpose());
    let output = product + policy.narrow(bias).unsqueeze();
    pass.layer(LayerKind("Linear"), &dims, &output.dims(), parameters);
    Ok(output)
}
