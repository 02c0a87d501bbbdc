use burn::tensor::{Int, Tensor};
use oomph_kernels::{
    AnyTensor, Kernels,
    cross_entropy::{mean_loss_backward, row_losses},
    differentiable, ranked,
};

use crate::autodiff;

/// The mean cross-entropy between logits and one class for each sample: −Σ q log softmax(logits).
///
/// q is 1 − ε + ε/K for the class and ε/K elsewhere, with label smoothing ε (Szegedy et al. 2016, arXiv:1512.00567).
/// Backward keeps the logits and overwrites them with their gradient. Burn's operations would keep the logarithms of all
/// probabilities too.
///
/// # Shapes
/// - logits `[B, K]` of 32 bits, classes `[B]`, the loss `[1]`
///
/// A class that is not below K makes the loss NaN.
pub fn cross_entropy(
    logits: Tensor<2>,
    classes: Tensor<1, Int>,
    label_smoothing: f64,
    kernels: Kernels,
) -> Tensor<1> {
    let smoothing = label_smoothing as f32;
    let kept = autodiff::inner(logits.clone());
    let rows = row_losses(&kept, &classes, smoothing, kernels);
    let loss = rows.losses.clone().mean_dim(0);
    ranked(differentiable([logits.into()], loss.into(), move |gradient, _| {
        let gradient = mean_loss_backward(kept, classes, rows, ranked(gradient), smoothing, kernels);
        [Some(AnyTensor::from(gradient))]
    }))
}
