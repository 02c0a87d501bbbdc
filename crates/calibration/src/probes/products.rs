use burn::tensor::{Device, Int, Tensor};
use oomph_kernels::cross_entropy::{mean_loss_backward, row_losses};

use super::{CPU, copied, full, probe};
use crate::probe::{Probe, Ready};

/// Rows, columns and the inner size.
const PRODUCTS: [[usize; 3]; 15] = [
    [2, 10, 64],
    [16, 64, 32],
    [32, 10, 512],
    [512, 10, 128],
    [8, 1000, 2048],
    [32, 1000, 2048],
    [64, 64, 64],
    [256, 256, 256],
    [1024, 1024, 1024],
    [2048, 256, 128],
    [2048, 1024, 256],
    [1024, 8000, 256],
    [16, 512, 512],
    [4096, 64, 256],
    [128, 2048, 32],
];

/// Rows and classes.
const LOSSES: [[usize; 2]; 6] = [[16, 10], [64, 10], [512, 10], [32, 1000], [2048, 100], [700, 8000]];

pub(super) fn probes() -> Vec<Probe> {
    let products =
        PRODUCTS.into_iter().flat_map(|sizes| TRANSPOSED.map(|transposed| product(sizes, transposed)));
    products.chain(LOSSES.into_iter().flat_map(losses)).collect()
}

/// Which operand is transposed: that of a layer in forward, and in both products of its backward.
const TRANSPOSED: [[bool; 2]; 3] = [[false, true], [false, false], [true, false]];

fn product([rows, columns, inner]: [usize; 3], transposed: [bool; 2]) -> Probe {
    let matrix = |[rows, columns]: [usize; 2], is_transposed: bool, device: &Device| {
        full(if is_transposed { [columns, rows] } else { [rows, columns] }, device)
    };
    let view = |matrix: &Tensor<2>, is_transposed: bool| match is_transposed {
        true => matrix.clone().transpose(),
        false => matrix.clone(),
    };
    probe("product", move |device| {
        let left = matrix([rows, inner], transposed[0], device);
        let right = matrix([inner, columns], transposed[1], device);
        move || -> Ready {
            let (left, right) = (view(&left, transposed[0]), view(&right, transposed[1]));
            Box::new(move || drop(left.matmul(right)))
        }
    })
}

fn losses([rows, classes]: [usize; 2]) -> [Probe; 2] {
    let tensors =
        move |device: &Device| (full([rows, classes], device), Tensor::<1, Int>::zeros([rows], device));
    [
        probe("cross_entropy", move |device| {
            let (logits, targets) = tensors(device);
            move || -> Ready {
                let (logits, targets) = (logits.clone(), targets.clone());
                Box::new(move || drop(row_losses(&logits, &targets, 0.0, CPU)))
            }
        }),
        probe("cross_entropy_backward", move |device| {
            let ((logits, targets), one) = (tensors(device), full([1], device));
            move || -> Ready {
                let rows = row_losses(&logits, &targets, 0.0, CPU);
                let (logits, targets, one) = (copied(&logits), targets.clone(), one.clone());
                Box::new(move || drop(mean_loss_backward(logits, targets, rows, one, 0.0, CPU)))
            }
        }),
    ]
}
