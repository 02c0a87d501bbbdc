use burn::{
    module::{Module, Param},
    tensor::{Int, Tensor, module::embedding},
};

use oomph_onnx::{Graph, Value};

use crate::{AnyTensor, Init, LayerKind, ModelError, Pass};

/// A vector for each token.
///
/// # Shapes
/// - input `[B, T]` of indices below V, output `[B, T, E]`
/// - `weight` `[V, E]`
///
/// Starts uniform in ±0.1, as in PyTorch's example language model; `nn.Embedding` itself starts normal.
#[derive(Module, Debug)]
pub struct Embedding {
    /// The vectors, a row for each token.
    pub weight: Param<Tensor<2>>,
}

impl Embedding {
    /// A vector of `size` numbers for each of `tokens` tokens.
    pub fn new(init: &Init, tokens: usize, size: usize) -> Self {
        Self { weight: init.uniform("weight", [tokens, size], 0.1) }
    }

    /// As [`new`](Self::new), normal with this deviation, as GPT-2's.
    pub fn normal(init: &Init, tokens: usize, size: usize, deviation: f64) -> Self {
        Self { weight: init.normal("weight", [tokens, size], deviation) }
    }

    /// Looks the vectors up, in the format of the policy.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where there is no time step.
    pub fn forward(&self, tokens: Tensor<2, Int>, pass: &mut Pass) -> Result<Tensor<3>, ModelError> {
        let dims = tokens.dims();
        pass.expect_shape(dims[1] > 0, "[B, T ≥ 1]", &dims)?;
        let weight = self.weight.val();
        let [count, size] = weight.dims();
        let output = pass.policy().narrow(embedding(weight, tokens));
        pass.layer(LayerKind("Embedding"), &dims, &output.dims(), count * size);
        Ok(output)
    }

    /// Adds the layer to an ONNX graph.
    pub fn to_onnx(&self, graph: &mut Graph, tokens: &Value) -> Value {
        let weight = graph.parameter("weight", &self.weight.val().dims());
        graph.node("Gather", &[&weight, tokens], [])
    }
}

/// An activation as tokens, `[B, T]`.
pub(crate) fn tokens(activation: AnyTensor, pass: &Pass) -> Result<Tensor<2, Int>, ModelError> {
    let found = activation.describe();
    activation.int().ok_or_else(|| ModelError::Kind {
        place: pass.place(),
        expected: "integers of rank 2".to_owned(),
        found,
    })
}
