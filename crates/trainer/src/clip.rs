use burn::tensor::Tensor;
use oomph_config::Clip;
use oomph_model::{AnyTensor, ModelError, Named};

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

/// The same of gradients that lie on several devices, one map each: a norm of all is made on the host.
pub(crate) fn clip_parts(
    parts: Vec<Named<AnyTensor>>,
    limit: Clip,
) -> Result<Vec<Named<AnyTensor>>, ModelError> {
    let (Clip::GlobalNorm(limit), true) = (limit, parts.len() > 1) else {
        return Ok(parts.into_iter().map(|gradients| clip(gradients, limit)).collect());
    };
    let mut total = 0.0;
    for gradient in parts.iter().flat_map(Named::values) {
        let square = AnyTensor::from(gradient.clone().sum_of_squares()).to_host()?;
        total += square.into_iter().map(f64::from).sum::<f64>();
    }
    let factor = (limit / (total.sqrt() + 1e-6)).min(1.0) as f32;
    Ok(parts.into_iter().map(|gradients| each(gradients, |gradient| gradient.scale(factor))).collect())
}

/// min(1, limit / (√squares + 1e-6)); the small number keeps a gradient of zeros from dividing by zero.
fn factor(squares: Tensor<1>, limit: f64) -> Tensor<1> {
    squares.sqrt().add_scalar(1e-6).recip().mul_scalar(limit).clamp_max(1.0)
}
