use burn::tensor::{Device, Tensor};
use oomph_kernels::{AdamStep, AdamTensors, AnyTensor, SgdStep, SgdTensors};

use super::{copied, full, probe};
use crate::probe::{Probe, Ready};

/// Elements of a parameter.
const SIZES: [usize; 6] = [64, 1024, 16_384, 262_144, 1 << 20, 1 << 22];

const SGD: SgdStep = SgdStep { lr: 0.1, weight_decay: 0.0, momentum: 0.9, dampening: 0.0, nesterov: false };

const ADAM: AdamStep =
    AdamStep { lr: 0.1, betas: [0.9, 0.99], epsilon: 1e-8, weight_decay: 0.0, decoupled: false, time: 3 };

pub(super) fn probes() -> Vec<Probe> {
    SIZES.into_iter().flat_map(|size| [sgd(size), adam(size)]).collect()
}

/// A parameter, its gradient, and two tensors of state.
fn tensors(size: usize, device: &Device) -> [Tensor<1>; 4] {
    [(); 4].map(|()| full([size], device))
}

fn sgd(size: usize) -> Probe {
    probe("sgd", move |device| {
        let tensors = tensors(size, device);
        move || -> Ready {
            let [parameter, gradient, velocity, _] =
                tensors.each_ref().map(|one| AnyTensor::from(copied(one)));
            let tensors = SgdTensors { parameter, gradient, velocity: Some(velocity) };
            Box::new(move || drop(SGD.apply(tensors)))
        }
    })
}

fn adam(size: usize) -> Probe {
    probe("adam", move |device| {
        let tensors = tensors(size, device);
        move || -> Ready {
            let [parameter, gradient, m, v] = tensors.each_ref().map(|one| AnyTensor::from(copied(one)));
            let tensors = AdamTensors { parameter, gradient, moments: [m, v] };
            Box::new(move || drop(ADAM.apply(tensors)))
        }
    })
}
