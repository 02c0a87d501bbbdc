use burn::{
    module::{Module, Param},
    tensor::Tensor,
};
use oomph_kernels::{Kernels, row_norm::RowNorm as Kernel};

use crate::{Init, Policy};

/// Normalisation of the features of each position: LayerNorm (Ba et al. 2016, <https://arxiv.org/abs/1607.06450>), or without a bias
/// RMSNorm (Zhang & Sennrich 2019, <https://arxiv.org/abs/1910.07467>), which leaves the mean.
///
/// # Shapes
/// - input and output `[N, F]`
/// - `weight` and `bias` `[F]`, which start at 1 and 0
///
/// Mean and deviation have 32 bits.
#[derive(Module, Debug)]
pub struct RowNorm {
    /// The scale of each feature.
    pub weight: Param<Tensor<1>>,
    /// The shift of each feature.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    epsilon: f64,
}

impl RowNorm {
    /// LayerNorm of `features`; `epsilon` is added to the variance.
    pub fn layer_norm(init: &Init, features: usize, epsilon: f64) -> Self {
        Self { bias: Some(init.constant([features], 0.0)), ..Self::rms_norm(init, features, epsilon) }
    }

    /// RMSNorm of `features`; `epsilon` is added to the mean square.
    pub fn rms_norm(init: &Init, features: usize, epsilon: f64) -> Self {
        Self { weight: init.constant([features], 1.0), bias: None, epsilon }
    }

    /// How a row is normalised.
    pub(super) fn kernel(&self) -> Kernel {
        Kernel { is_centred: self.bias.is_some(), epsilon: self.epsilon as f32 }
    }

    /// Elements of the parameters.
    pub(super) fn elements(&self) -> usize {
        let [features] = self.weight.val().dims();
        if self.bias.is_some() { 2 * features } else { features }
    }

    /// The normalised rows by Burn's operations.
    pub(super) fn composed(&self, input: Tensor<2>, policy: Policy) -> Tensor<2> {
        let (weight, bias) = (self.weight.val(), self.bias.as_ref().map(Param::val));
        policy.narrow(self.kernel().apply(policy.widen(input), weight, bias, Kernels::Composed))
    }
}
