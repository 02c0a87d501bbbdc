//! Cross-entropy against a plain computation in 64 bits.

#![cfg(feature = "gpu")]

mod common;

use burn_backend::DType;
use common::{assert_close, has_driver, noise, rounded, to_gpu, to_host, vector};
use cubecl::Runtime;
use oomph_gpu_kernels::{
    GpuRuntime, GpuTensor,
    cross_entropy::{LossGradient, RowLosses, mean_loss_backward, row_losses},
};

/// `[B, K]`: short rows, and rows that a whole cube has.
const SHAPES: [[usize; 2]; 6] = [[1, 1], [1, 2], [5, 10], [7, 33], [3, 256], [2, 1003]];

/// Classes as integers of 64 or 32 bits.
fn classes(classes: &[i64], dtype: DType) -> GpuTensor {
    let device = <GpuRuntime as Runtime>::Device::default();
    let client = GpuRuntime::client(&device);
    let bytes: Vec<u8> = match dtype {
        DType::I64 => classes.iter().flat_map(|class| class.to_le_bytes()).collect(),
        _ => classes.iter().flat_map(|class| (*class as i32).to_le_bytes()).collect(),
    };
    let handle = client.create_from_slice(&bytes);
    GpuTensor::new_contiguous(client, device, vec![classes.len()].into(), handle, dtype)
}

/// The formats of classes. WGSL has integers of 64 bits on some cards alone.
const INTEGERS: &[DType] = if cfg!(feature = "cuda") { &[DType::I32, DType::I64] } else { &[DType::I32] };

#[test]
fn losses_and_gradients_are_those_of_the_formula() {
    if !has_driver() {
        return;
    }
    for [batch, width] in SHAPES {
        for (dtype, smoothing) in [(DType::I64, 0.0), (DType::I32, 0.0), (DType::I64, 0.1), (DType::I32, 0.1)]
        {
            if !INTEGERS.contains(&dtype) {
                continue;
            }
            // Their exponentials overflow 32 bits. They are near each other: beside a much greater one, 1 + exp(−x) has lost most
            // digits of exp(−x).
            let logits: Vec<f64> = noise(batch * width, 1).iter().map(|value| value * 2.0 + 100.0).collect();
            let logits = rounded(&logits, DType::F32);
            let of_rows: Vec<i64> = (0..batch).map(|row| ((row * 7 + 1) % width) as i64).collect();
            let what = format!("{batch} × {width}, {dtype:?}, smoothing {smoothing}");
            let (mut losses, mut gradient, mut log_sums) = (Vec::new(), Vec::new(), Vec::new());
            for (row, class) in logits.chunks(width).zip(&of_rows) {
                let greatest = row.iter().copied().fold(f64::MIN, f64::max);
                let log_sum = row.iter().map(|value| (value - greatest).exp()).sum::<f64>().ln();
                let mut loss = 0.0;
                for (index, value) in row.iter().enumerate() {
                    let of_class = if index == *class as usize { 1.0 - smoothing } else { 0.0 };
                    let target = smoothing / width as f64 + of_class;
                    let log_probability = value - greatest - log_sum;
                    loss -= target * log_probability;
                    gradient.push(-0.75 * (log_probability.exp() - target));
                }
                losses.push(loss);
                log_sums.push(log_sum);
            }
            let tensor = || to_gpu(&logits, &[batch, width], DType::F32);
            let RowLosses { losses: found, greatest, log_sum } =
                row_losses(tensor(), classes(&of_rows, dtype), smoothing as f32);
            assert_close(found, &losses, DType::F32, &format!("losses of {what}"));
            assert_close(log_sum.clone(), &log_sums, DType::F32, &format!("sums of {what}"));
            let loss = LossGradient {
                classes: classes(&of_rows, dtype),
                greatest,
                log_sum,
                scale: vector(&[-0.75]),
                smoothing: smoothing as f32,
            };
            let kept = tensor();
            let apart = mean_loss_backward(kept.clone(), loss.clone());
            assert_eq!(to_host(kept), logits, "logits of {what}");
            assert_close(apart, &gradient, DType::F32, &format!("gradient of {what}"));
            let in_place = mean_loss_backward(tensor(), loss);
            assert_close(in_place, &gradient, DType::F32, &format!("gradient in place of {what}"));
        }
    }
}

#[test]
fn the_loss_of_a_class_that_is_none_is_nan() {
    if !has_driver() {
        return;
    }
    let logits = to_gpu(&noise(12, 2), &[4, 3], DType::F32);
    for dtype in INTEGERS.iter().copied() {
        let found = row_losses(logits.clone(), classes(&[-1, 3, 2, i64::from(i32::MIN)], dtype), 0.0);
        let is_nan: Vec<bool> = to_host(found.losses).iter().map(|loss| loss.is_nan()).collect();
        assert_eq!(is_nan, [true, true, false, true], "{dtype:?}");
    }
}
