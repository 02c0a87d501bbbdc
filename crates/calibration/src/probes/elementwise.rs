use burn::tensor::{DType, Tensor};
use oomph_kernels::{cast, zeros};

use super::{CPU, copied, full, probe};
use crate::probe::{Probe, Ready};

/// Elements of a tensor, in rows of [`ROW`].
const SIZES: [usize; 6] = [256, 4096, 65_536, 1 << 18, 1 << 20, 1 << 22];

const ROW: usize = 64;

/// So many elements that the system maps the memory of a new tensor.
const MAPPED: usize = 1 << 24;

pub(super) fn probes() -> Vec<Probe> {
    let of_size = |size| {
        [
            add(size, false),
            add(size, true),
            unary("mul_scalar", size, false, |tensor| drop(tensor.mul_scalar(0.5))),
            unary("mul_scalar", size, true, |tensor| drop(tensor.mul_scalar(0.5))),
            unary("tanh", size, true, |tensor| drop(tensor.tanh())),
            unary("exp", size, true, |tensor| drop(tensor.exp())),
            unary("sqrt", size, true, |tensor| drop(tensor.sqrt())),
            unary("cast", size, false, |tensor| drop(cast(tensor, DType::BF16, CPU))),
            unary("sum_dim", size, false, |tensor| drop(tensor.sum_dim(1))),
            unary("sum_dim", size, false, |tensor| drop(tensor.sum_dim(0))),
            new(size),
        ]
    };
    SIZES.into_iter().flat_map(of_size).chain([new(MAPPED)]).collect()
}

/// An operation on one tensor, which it may overwrite if `is_alone`.
fn unary(kind: &'static str, size: usize, is_alone: bool, run: fn(Tensor<2>)) -> Probe {
    probe(kind, move |device| {
        let tensor = full([size / ROW, ROW], device);
        move || -> Ready {
            let tensor = if is_alone { copied(&tensor) } else { tensor.clone() };
            Box::new(move || run(tensor))
        }
    })
}

fn add(size: usize, is_alone: bool) -> Probe {
    probe("add", move |device| {
        let tensors = [full([size], device), full([size], device)];
        move || -> Ready {
            let [left, right] = tensors.clone();
            let left = if is_alone { copied(&left) } else { left };
            Box::new(move || drop(left + right))
        }
    })
}

/// A new tensor of zeros.
fn new(size: usize) -> Probe {
    probe("zeros", move |device| {
        let like = full::<1>([1], device);
        move || -> Ready {
            let like = like.clone();
            Box::new(move || drop(zeros([size], DType::F32, like, CPU)))
        }
    })
}
