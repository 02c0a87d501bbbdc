//! Averages of tensors over time.

use crate::{
    any_tensor::AnyTensor,
    kernels::Kernels,
    optimizer_step::{SgdStep, SgdTensors},
};

/// Moves each average a to its value v by the share w: a + w (v − a), as PyTorch's `lerp_`. Averages overwrite the old ones
/// if nobody else holds those.
///
/// Our kernels are those of [`SgdStep`], since w (v − a) is a step of gradient v, weight decay −1 and learning rate −w. So
/// an average takes one pass over memory, and on a GPU 48 averages take one launch.
///
/// # Panics
/// Panics if the tensors are not of 32 bits, or neither on the device of `kernels` nor on a capture device.
pub fn averaged(pairs: Vec<(AnyTensor, AnyTensor)>, weight: f64, kernels: Kernels) -> Vec<AnyTensor> {
    let step = SgdStep { lr: -weight, weight_decay: -1.0, momentum: 0.0, dampening: 0.0, nesterov: false };
    let tensors = pairs.into_iter().map(|(average, value)| SgdTensors {
        parameter: average,
        gradient: value,
        velocity: None,
    });
    match kernels {
        Kernels::Gpu => step.apply_on_gpu(tensors.collect()).into_iter().map(|it| it.parameter).collect(),
        Kernels::Cpu => tensors.map(|tensors| step.apply(tensors).parameter).collect(),
        Kernels::Composed => tensors
            .map(|SgdTensors { parameter, gradient, .. }| {
                let difference = gradient.add(parameter.clone().scale(-1.0));
                parameter.add(difference.scale(weight as f32))
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn the_kernel_averages_as_burns_operations_do() {
        let device = Device::flex();
        let shape = [3, 40_000];
        let values = |phase: f32| (0..120_000).map(|it| (it as f32 * 0.01 + phase).sin()).collect::<Vec<_>>();
        let of = |kernels| {
            let pair = (
                AnyTensor::floats(values(0.0), &shape, &device),
                AnyTensor::floats(values(1.0), &shape, &device),
            );
            let [average] = &averaged(vec![pair], 0.25, kernels)[..] else { panic!("one average") };
            assert_eq!(average.dims(), shape);
            average.to_host().expect("the CPU does not fail")
        };
        let pairs = values(0.0).into_iter().zip(values(1.0));
        for (expected, found) in pairs.map(|(a, v)| a + 0.25 * (v - a)).zip(of(Kernels::Cpu)).step_by(97) {
            assert!((expected - found).abs() < 1e-6, "{found} instead of {expected}");
        }
        for (ours, composed) in of(Kernels::Cpu).into_iter().zip(of(Kernels::Composed)).step_by(97) {
            assert!((ours - composed).abs() < 1e-6, "{ours} and {composed}");
        }
    }

    #[test]
    fn an_average_that_nobody_else_holds_keeps_its_memory() {
        let device = Device::flex();
        let average = AnyTensor::floats(vec![1.0; 64], &[64], &device);
        let before = crate::storage::Storage::of(&average);
        let value = AnyTensor::floats(vec![3.0; 64], &[64], &device);
        let averages = averaged(vec![(average, value.clone())], 0.5, Kernels::Cpu);
        assert_eq!(crate::storage::Storage::of(&averages[0]), before);
        assert_eq!(averages[0].to_host().expect("the CPU does not fail"), [2.0; 64]);
        assert_eq!(value.to_host().expect("the CPU does not fail"), [3.0; 64]);
    }
}
