use burn::tensor::Tensor;
use oomph_config::Clip;
use oomph_model::{AnyTensor, Named};

use crate::gradients::each;

/// Bounds gradients, on the device and without reading anything back.
///
/// - by value: each element is moved into ±limit;
/// - by tensor norm: each tensor whose L2 norm is above the limit is scaled down to it;
/// - by global norm (Pascanu et al. 2013, arXiv:1211.5063): all together are scaled by min(1, limit / (norm + 1e-6)),
///   where norm is that of all gradients as one vector. As PyTorch's `clip_grad_norm_`.
pub fn clip(gradients: Named<AnyTensor>, clip: Clip) -> Named<AnyTensor> {
    match clip {
        Clip::Value(limit) => each(gradients, |gradient| gradient.clamp(limit as f32)),
        Clip::Norm(limit) => each(gradients, |gradient| {
            let factor = factor(gradient.clone().sum_of_squares(), limit);
            gradient.scale_by(factor)
        }),
        Clip::GlobalNorm(limit) => {
            let squares = gradients.values().map(|gradient| gradient.clone().sum_of_squares());
            let Some(total) = squares.reduce(|sum, square| sum + square) else { return gradients };
            let factor = factor(total, limit);
            each(gradients, |gradient| gradient.scale_by(factor.clone()))
        }
    }
}

/// min(1, limit / (√squares + 1e-6)); the small number keeps a gradient of zeros from dividing by zero.
fn factor(squares: Tensor<1>, limit: f64) -> Tensor<1> {
    squares.sqrt().add_scalar(1e-6).recip().mul_scalar(limit).clamp_max(1.0)
}
