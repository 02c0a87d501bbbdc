use burn::tensor::{Device, Tensor};
use oomph_kernels::{
    AdamStep, AdamTensors, AnyTensor, SgdStep, SgdTensors,
    packed::{LionStep, PackedFormat, PackedRule, PackedStep, PackedTensors, first_moment},
};

use super::{CPU, cool, copied, full, probe};
use crate::probe::{Probe, Ready};

/// Elements of a parameter.
const SIZES: [usize; 6] = [64, 1024, 16_384, 262_144, 1 << 20, 1 << 22];

const SGD: SgdStep = SgdStep { lr: 0.1, weight_decay: 0.0, momentum: 0.9, dampening: 0.0, nesterov: false };

const ADAM: AdamStep =
    AdamStep { lr: 0.1, betas: [0.9, 0.99], epsilon: 1e-8, weight_decay: 0.0, decoupled: false, time: 3 };

const LION: LionStep = LionStep { lr: 0.1, betas: [0.9, 0.99], weight_decay: 0.0 };

/// Elements of a parameter with packed state: smaller ones have none.
const PACKED_SIZES: [usize; 3] = [4096, 262_144, 1 << 22];

/// The kinds of steps with packed state.
const PACKED: [(&str, PackedRule, PackedFormat); 6] = [
    ("sgd_bf16", PackedRule::Sgd(SGD), PackedFormat::Bf16),
    ("sgd_int8", PackedRule::Sgd(SGD), PackedFormat::Int8),
    ("adam_bf16", PackedRule::Adam(ADAM), PackedFormat::Bf16),
    ("adam_int8", PackedRule::Adam(ADAM), PackedFormat::Int8),
    ("lion_bf16", PackedRule::Lion(LION), PackedFormat::Bf16),
    ("lion_int8", PackedRule::Lion(LION), PackedFormat::Int8),
];

pub(super) fn probes() -> Vec<Probe> {
    let wide = SIZES.into_iter().flat_map(|size| [sgd(size), adam(size)]);
    let packed = PACKED.into_iter().flat_map(|(kind, rule, format)| {
        let step = PackedStep { rule, format, time: 3 };
        PACKED_SIZES.map(|size| packed(kind, step, size))
    });
    wide.chain(packed).collect()
}

/// A parameter, its gradient, and two tensors of state.
fn tensors(size: usize, device: &Device) -> [Tensor<1>; 4] {
    [(); 4].map(|()| full([size], device))
}

/// A copy that a step may overwrite.
fn cold(tensor: &Tensor<1>) -> AnyTensor {
    let copy = copied(tensor);
    cool(&copy);
    copy.into()
}

fn sgd(size: usize) -> Probe {
    probe("sgd", move |device| {
        let tensors = tensors(size, device);
        move || -> Ready {
            let [parameter, gradient, velocity, _] = tensors.each_ref().map(cold);
            let tensors = SgdTensors { parameter, gradient, velocity: Some(velocity) };
            Box::new(move || drop(SGD.apply(tensors)))
        }
    })
}

fn adam(size: usize) -> Probe {
    probe("adam", move |device| {
        let tensors = tensors(size, device);
        move || -> Ready {
            let [parameter, gradient, m, v] = tensors.each_ref().map(cold);
            let tensors = AdamTensors { parameter, gradient, moments: [m, v] };
            Box::new(move || drop(ADAM.apply(tensors)))
        }
    })
}

fn packed(kind: &'static str, step: PackedStep, size: usize) -> Probe {
    probe(kind, move |device| {
        let [parameter, gradient, ..] = tensors(size, device);
        move || -> Ready {
            let [parameter, gradient] = [&parameter, &gradient].map(cold);
            let moment = |_| first_moment(step.format, &gradient, CPU);
            let moments = step.rule.moments().iter().map(moment).collect();
            let tensors = PackedTensors { parameter, gradient, moments };
            Box::new(move || drop(step.apply(tensors)))
        }
    })
}
