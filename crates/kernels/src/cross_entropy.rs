//! Cross-entropy between logits `[B, K]` and one class for each row.

use burn::tensor::{IndexingUpdateOp, Int, Tensor};
use burn_backend::DType;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use crate::{
    any_tensor::ranked,
    blocks::{ByClosure, change_rows},
    custom_op::CustomOp,
    flex_tensor::vector,
    gpu::{self, on_gpu},
    indices::indices,
    kernels::Kernels,
    workers,
};

/// The loss of each row, and the values that backward needs: log softmax(x)ᵢ is xᵢ − greatest − log_sum.
pub struct RowLosses {
    /// The losses, `[B]`.
    pub losses: Tensor<1>,
    /// The greatest logit of each row, `[B]`.
    pub greatest: Tensor<1>,
    /// log Σ exp(xᵢ − greatest) of each row, `[B]`.
    pub log_sum: Tensor<1>,
}

/// −Σ q log softmax(logits) of each row. q is `smoothing / K` for every class, and `1 − smoothing` more for the row's
/// class.
pub fn row_losses(
    logits: &Tensor<2>,
    classes: &Tensor<1, Int>,
    smoothing: f32,
    kernels: Kernels,
) -> RowLosses {
    let [batch, _] = logits.dims();
    if kernels != Kernels::Composed {
        let operation = CustomOp {
            name: "cross_entropy",
            inputs: vec![logits.clone().into(), classes.clone().into()],
            outputs: vec![(vec![batch], DType::F32); 3],
            in_place: 0,
        };
        let made = match kernels {
            Kernels::Gpu => gpu::outputs(on_gpu!(operation, [], |inputs| {
                let [logits, classes] = gpu::listed(inputs);
                let made = oomph_gpu_kernels::cross_entropy::row_losses(logits, classes, smoothing);
                vec![made.losses, made.greatest, made.log_sum]
            })),
            _ => operation.run(|inputs| own_losses(&inputs[0], &inputs[1], smoothing)),
        };
        let [losses, greatest, log_sum] = made.map(ranked);
        return RowLosses { losses, greatest, log_sum };
    }
    let greatest = logits.clone().max_dim(1);
    let log_sum = (logits.clone() - greatest.clone()).exp().sum_dim(1).log();
    let picked = logits.clone().gather(1, classes.clone().reshape([batch, 1]));
    let mean = logits.clone().mean_dim(1);
    let target = picked * (1.0 - smoothing) + mean * smoothing;
    let losses = log_sum.clone() - (target - greatest.clone());
    let [losses, greatest, log_sum] = [losses, greatest, log_sum].map(|column| column.reshape([batch]));
    RowLosses { losses, greatest, log_sum }
}

fn own_losses(logits: &FlexTensor, classes: &FlexTensor, smoothing: f32) -> Vec<FlexTensor> {
    let width = logits.layout().shape()[1].max(1);
    let (values, classes) = (logits.storage::<f32>(), indices(classes));
    let of = |(row, class): (&[f32], &usize)| {
        let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|value| f64::from((value - greatest).exp())).sum();
        let log_sum = sum.ln() as f32;
        let mean = row.iter().map(|value| f64::from(value - greatest)).sum::<f64>() / width as f64;
        let picked = row.get(*class).map_or(f32::NAN, |value| value - greatest);
        let target = (1.0 - smoothing) * picked + smoothing * mean as f32;
        (log_sum - target, greatest, log_sum)
    };
    let rows: Vec<(f32, f32, f32)> = workers::map(values.par_chunks(width).zip(&classes), of).collect();
    let column = |of: fn(&(f32, f32, f32)) -> f32| vector(rows.iter().map(of).collect());
    vec![column(|row| row.0), column(|row| row.1), column(|row| row.2)]
}

/// The gradient of the mean loss of all rows, times `gradient`, `[1]`. It overwrites the logits if nobody else holds them.
pub fn mean_loss_backward(
    logits: Tensor<2>,
    classes: Tensor<1, Int>,
    rows: RowLosses,
    gradient: Tensor<1>,
    smoothing: f32,
    kernels: Kernels,
) -> Tensor<2> {
    let [batch, width] = logits.dims();
    let scale = gradient.div_scalar(batch as f64);
    let RowLosses { greatest, log_sum, .. } = rows;
    if kernels == Kernels::Gpu {
        let rest = [classes.into(), greatest.into(), log_sum.into(), scale.into()];
        let operation = CustomOp::changing("cross_entropy_backward", logits, rest, DType::F32);
        return gpu::one(on_gpu!(operation, [], |inputs| {
            let [logits, classes, greatest, log_sum, scale] = gpu::listed(inputs);
            let loss = oomph_gpu_kernels::cross_entropy::LossGradient {
                classes,
                greatest,
                log_sum,
                scale,
                smoothing,
            };
            vec![oomph_gpu_kernels::cross_entropy::mean_loss_backward(logits, loss)]
        }));
    }
    if kernels == Kernels::Cpu {
        let rest = [classes.into(), greatest.into(), log_sum.into(), scale.into()];
        return CustomOp::change("cross_entropy_backward", logits, rest, DType::F32, |logits, rest| {
            let classes = indices(&rest[0]);
            let [greatest, log_sum, scale] = [1, 2, 3].map(|index: usize| rest[index].storage::<f32>());
            let scale = scale[0];
            let spread = smoothing / width as f32;
            let change = ByClosure(|at, block| {
                let row = at / width;
                for value in block.iter_mut() {
                    *value = scale * (((*value - greatest[row]) - log_sum[row]).exp() - spread);
                }
                if let Some(value) =
                    classes[row].checked_sub(at % width).and_then(|class| block.get_mut(class))
                {
                    *value -= scale * (1.0 - smoothing);
                }
            });
            change_rows(logits, DType::F32, width, change)
        });
    }
    let [greatest, log_sum] = [greatest, log_sum].map(|vector| vector.reshape([batch, 1]));
    let probabilities = (logits - greatest - log_sum).exp();
    let spread = probabilities.sub_scalar(smoothing / width as f32) * scale.clone().reshape([1, 1]);
    let of_class = scale.mul_scalar(smoothing - 1.0).reshape([1, 1]).expand([batch, 1]);
    spread.scatter(1, classes.reshape([batch, 1]), of_class, IndexingUpdateOp::Add)
}
