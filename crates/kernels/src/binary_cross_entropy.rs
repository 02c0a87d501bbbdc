//! Binary cross-entropy between logits `[B, K]` and targets `[B, K]` from 0 to 1.

use burn::tensor::{Tensor, activation::sigmoid};
use burn_backend::DType;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use crate::{
    any_tensor::ranked,
    blocks::{ByClosure, change_rows},
    custom_op::CustomOp,
    flex_tensor::vector,
    kernels::Kernels,
    workers,
};

/// −y log σ(x) − (1 − y) log(1 − σ(x)) of each logit x and target y, composed of Burn's operations: x (½ − y) + |x| / 2 +
/// log(1 + exp(−|x|)).
///
/// No term overflows, and its gradient is exact at 0 too, where heads often begin: there Burn differentiates |x| to 0.
pub fn element_losses(logits: Tensor<2>, targets: Tensor<2>) -> Tensor<2> {
    even(logits.clone()) + logits * targets.neg().add_scalar(0.5)
}

/// As [`element_losses`], with weights `[1, K]` as factors of the first term: they count where a label is present.
pub fn weighted_losses(logits: Tensor<2>, targets: Tensor<2>, weights: Tensor<2>) -> Tensor<2> {
    let absent = targets.clone().neg().add_scalar(1.0);
    let present = targets * weights;
    even(logits.clone()) * (present.clone() + absent.clone()) + logits * (absent - present).mul_scalar(0.5)
}

/// |x| / 2 + log(1 + exp(−|x|)). Less x / 2 it is −log σ(x), and plus x / 2 it is −log(1 − σ(x)).
fn even(logits: Tensor<2>) -> Tensor<2> {
    let size = logits.abs();
    let tail = size.clone().neg().exp().log1p();
    size.mul_scalar(0.5) + tail
}

/// The targets with label smoothing ε: y (1 − ε) + ε / 2.
pub fn smoothed(targets: Tensor<2>, smoothing: f32) -> Tensor<2> {
    if smoothing == 0.0 {
        return targets;
    }
    targets.mul_scalar(1.0 - smoothing).add_scalar(0.5 * smoothing)
}

/// The mean loss of each row, `[B]`, with [`smoothed`] targets.
pub fn row_losses(logits: &Tensor<2>, targets: &Tensor<2>, smoothing: f32, kernels: Kernels) -> Tensor<1> {
    let [batch, _] = logits.dims();
    if kernels == Kernels::Cpu {
        let operation = CustomOp {
            name: "binary_cross_entropy",
            inputs: vec![logits.clone().into(), targets.clone().into()],
            outputs: vec![(vec![batch], DType::F32)],
            in_place: 0,
        };
        let [losses] = operation.run(|inputs| vec![own_losses(&inputs[0], &inputs[1], smoothing)]);
        return ranked(losses);
    }
    element_losses(logits.clone(), smoothed(targets.clone(), smoothing)).mean_dim(1).reshape([batch])
}

fn own_losses(logits: &FlexTensor, targets: &FlexTensor, smoothing: f32) -> FlexTensor {
    let width = logits.layout().shape()[1].max(1);
    let (logits, targets) = (logits.storage::<f32>(), targets.storage::<f32>());
    let of_row = |(logits, targets): (&[f32], &[f32])| {
        let loss = |(logit, target): (&f32, &f32)| {
            let tail = f64::from((-logit.abs()).exp().ln_1p());
            f64::from(logit * (0.5 - smooth(*target, smoothing)) + logit.abs() * 0.5) + tail
        };
        (logits.iter().zip(targets).map(loss).sum::<f64>() / width as f64) as f32
    };
    vector(workers::map(logits.par_chunks(width).zip(targets.par_chunks(width)), of_row).collect())
}

fn smooth(target: f32, smoothing: f32) -> f32 {
    target * (1.0 - smoothing) + 0.5 * smoothing
}

/// The gradient of the mean loss of all rows, times `gradient`, `[1]`: (σ(x) − y) / (B K). It overwrites the logits if nobody
/// else holds them.
pub fn mean_loss_backward(
    logits: Tensor<2>,
    targets: Tensor<2>,
    gradient: Tensor<1>,
    smoothing: f32,
    kernels: Kernels,
) -> Tensor<2> {
    let [batch, width] = logits.dims();
    let scale = gradient.div_scalar((batch * width) as f64);
    if kernels == Kernels::Cpu {
        let rest = [targets.into(), scale.into()];
        return CustomOp::change(
            "binary_cross_entropy_backward",
            logits,
            rest,
            DType::F32,
            |logits, rest| {
                let [targets, scale] = [0, 1].map(|index: usize| rest[index].storage::<f32>());
                let scale = scale[0];
                let change = ByClosure(|at, block| {
                    for (value, target) in block.iter_mut().zip(&targets[at..]) {
                        *value = scale * (1.0 / (1.0 + (-*value).exp()) - smooth(*target, smoothing));
                    }
                });
                change_rows(logits, DType::F32, width, change)
            },
        );
    }
    (sigmoid(logits) - smoothed(targets, smoothing)) * scale.reshape([1, 1])
}
