//! Gradient clipping.

use burn::tensor::Tensor;
use oomph_config::Clip;
use oomph_kernels::{
    Kernels,
    gradients::{Factor, sum_of_squares},
};
use oomph_model::{AnyTensor, Named};

use crate::gradients::{each, listed, scaled};

/// Clips gradients on the device of `kernels`, without reading anything back to the host.
///
/// - By value: each element is clamped to ±limit.
/// - By tensor norm: each tensor is scaled by min(1, limit / (norm + 1e-6)), where norm is the L2 norm of the tensor.
/// - By global norm (Pascanu et al. 2013, arXiv:1211.5063): all tensors are scaled by one such factor, where norm is
///   the L2 norm of all gradients as one vector. PyTorch's `clip_grad_norm_` does the same.
pub fn clip(gradients: Named<AnyTensor>, clip: Clip, kernels: Kernels) -> Named<AnyTensor> {
    match clip {
        Clip::Value(limit) => each(gradients, |gradient| gradient.clamp(limit as f32)),
        Clip::Norm(limit) => each(gradients, |gradient| {
            let factor = factor(gradient.clone().sum_of_squares(), limit);
            gradient.scale_by(factor)
        }),
        Clip::GlobalNorm(limit) => {
            let total = sum_of_squares(&listed(&gradients), kernels);
            let Some(total) = total else { return gradients };
            scaled(gradients, Factor::Element(factor(total, limit)), kernels)
        }
    }
}

/// Clips gradients that are on different devices, one map per device. If the model `is_split`, the global norm is
/// summed over all devices on the host: `read` copies the sum of squares of one tensor to the host.
///
/// # Errors
/// The errors of `read`.
pub(crate) fn clip_parts<E>(
    parts: Vec<Named<AnyTensor>>,
    limit: Clip,
    is_split: bool,
    kernels: Kernels,
    mut read: impl FnMut(AnyTensor) -> Result<f32, E>,
) -> Result<Vec<Named<AnyTensor>>, E> {
    let (Clip::GlobalNorm(limit), true) = (limit, is_split) else {
        return Ok(parts.into_iter().map(|gradients| clip(gradients, limit, kernels)).collect());
    };
    let mut squares = 0.0;
    // A GPU computes one sum: each read waits for it.
    let groups = parts.iter().map(listed).flat_map(|gradients| match kernels {
        Kernels::Gpu => vec![gradients],
        Kernels::Cpu | Kernels::Composed => gradients.into_iter().map(|gradient| vec![gradient]).collect(),
    });
    for sum in groups.filter_map(|gradients| sum_of_squares(&gradients, kernels)) {
        squares += f64::from(read(sum.into())?);
    }
    let factor = (limit / (squares.sqrt() + 1e-6)).min(1.0) as f32;
    Ok(parts.into_iter().map(|gradients| scaled(gradients, Factor::Number(factor), kernels)).collect())
}

/// min(1, limit / (√squares + 1e-6)). The 1e-6 prevents a division by zero for a gradient of zeros.
fn factor(squares: Tensor<1>, limit: f64) -> Tensor<1> {
    squares.sqrt().add_scalar(1e-6).recip().mul_scalar(limit).clamp_max(1.0)
}
