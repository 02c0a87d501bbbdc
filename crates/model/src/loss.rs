use burn::tensor::{Int, Tensor};
use oomph_kernels::{
    AnyTensor, Kernels, binary_cross_entropy as binary,
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

/// The mean binary cross-entropy between logits and targets from 0 to 1, over all labels of all samples:
/// −y log σ(x) − (1 − y) log(1 − σ(x)).
///
/// With label smoothing ε, y is y (1 − ε) + ε/2. Backward keeps the logits and the targets, and overwrites the logits with
/// their gradient.
///
/// # Shapes
/// - logits `[B, K]` of 32 bits, targets `[B, K]`, the loss `[1]`
pub fn binary_cross_entropy(
    logits: Tensor<2>,
    targets: Tensor<2>,
    label_smoothing: f64,
    kernels: Kernels,
) -> Tensor<1> {
    let smoothing = label_smoothing as f32;
    let (kept, targets) = (autodiff::inner(logits.clone()), autodiff::inner(targets));
    let loss = binary::row_losses(&kept, &targets, smoothing, kernels).mean_dim(0);
    ranked(differentiable([logits.into()], loss.into(), move |gradient, _| {
        let gradient = binary::mean_loss_backward(kept, targets, ranked(gradient), smoothing, kernels);
        [Some(AnyTensor::from(gradient))]
    }))
}

/// The losses of which [`binary_cross_entropy`] is the mean, `[B, K]`, composed of Burn's operations. Each label has a weight
/// in `weights`, `[1, K]`, for the samples that have it.
pub fn binary_cross_entropies(
    logits: Tensor<2>,
    targets: Tensor<2>,
    label_smoothing: f64,
    weights: Option<Tensor<2>>,
) -> Tensor<2> {
    let targets = binary::smoothed(targets, label_smoothing as f32);
    match weights {
        Some(weights) => binary::weighted_losses(logits, targets, weights),
        None => binary::element_losses(logits, targets),
    }
}
