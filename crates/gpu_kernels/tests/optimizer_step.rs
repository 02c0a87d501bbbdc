//! Optimizer steps against a plain computation in 64 bits.

#![cfg(feature = "gpu")]

mod common;

use burn_backend::DType;
use common::{assert_close, has_driver, noise, to_gpu, to_host};
use oomph_gpu_kernels::{
    GpuTensor,
    optimizer_step::{Adam, AdamTensors, Sgd, SgdTensors, adam_step, sgd_step},
};

/// Elements of the parameters: more than one launch takes, vectors of four and single elements, one cube and several.
fn lengths() -> Vec<usize> {
    (0..101).map(|index| [1, 4, 10, 1024, 1029, 3000, 64][index % 7] + 4 * index).collect()
}

fn tensors(seed: u64) -> Vec<Vec<f64>> {
    lengths()
        .into_iter()
        .enumerate()
        .map(|(index, length)| noise(length, seed + 100 * index as u64))
        .collect()
}

fn squares(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| f64::from((value * value) as f32)).collect()
}

fn gpu(values: &[f64]) -> GpuTensor {
    to_gpu(values, &[values.len()], DType::F32)
}

#[test]
fn sgd_steps_are_those_of_the_formula() {
    if !has_driver() {
        return;
    }
    for (momentum, nesterov, weight_decay) in
        [(0.0f32, false, 0.0f32), (0.0, false, 0.1), (0.9, false, 0.1), (0.9, true, 0.0), (0.5, true, 0.1)]
    {
        let step = Sgd { lr: 0.1, weight_decay, momentum, share: 0.75, nesterov };
        let (parameters, gradients, velocities) = (tensors(1), tensors(2), tensors(3));
        // Every third parameter takes its first step.
        let has_velocity = |index: usize| momentum != 0.0 && index % 3 != 0;
        let input = (0..parameters.len()).map(|index| SgdTensors {
            parameter: gpu(&parameters[index]),
            gradient: gpu(&gradients[index]),
            velocity: has_velocity(index).then(|| gpu(&velocities[index])),
        });
        let found = sgd_step(step, input.collect());
        assert_eq!(found.len(), parameters.len());
        let [decay, mu, lr] = [weight_decay, momentum, step.lr].map(f64::from);
        for (index, found) in found.into_iter().enumerate() {
            let what = format!("{step:?}, parameter {index}");
            let (mut stepped, mut velocity) = (Vec::new(), Vec::new());
            for (at, p) in parameters[index].iter().enumerate() {
                let g = gradients[index][at] + decay * p;
                let v = if has_velocity(index) { mu * velocities[index][at] + 0.75 * g } else { g };
                let direction = if nesterov { g + mu * v } else { v };
                stepped.push(p - lr * if momentum == 0.0 { g } else { direction });
                velocity.push(v);
            }
            assert_close(found.parameter, &stepped, DType::F32, &what);
            match found.velocity {
                Some(found) => assert_close(found, &velocity, DType::F32, &what),
                None => assert_eq!(momentum, 0.0, "{what}"),
            }
        }
    }
}

#[test]
fn adam_steps_are_those_of_the_formula() {
    if !has_driver() {
        return;
    }
    for (coupled, kept) in [(0.0f32, 1.0f32), (0.1, 1.0), (0.0, 0.95)] {
        let step = Adam { lr: 0.01, betas: [0.9, 0.999], factor: 0.25, epsilon: 1e-6, coupled, kept };
        let (parameters, gradients, first) = (tensors(1), tensors(2), tensors(3));
        let second: Vec<_> = tensors(4).iter().map(|values| squares(values)).collect();
        let input = (0..parameters.len()).map(|index| AdamTensors {
            parameter: gpu(&parameters[index]),
            gradient: gpu(&gradients[index]),
            moments: [gpu(&first[index]), gpu(&second[index])],
        });
        let found = adam_step(step, input.collect());
        let [beta1, beta2] = step.betas.map(f64::from);
        let [lr, factor, epsilon] = [step.lr, step.factor, step.epsilon].map(f64::from);
        for (index, found) in found.into_iter().enumerate() {
            let what = format!("{step:?}, parameter {index}");
            let mut expected = [(); 3].map(|()| Vec::new());
            for (at, p) in parameters[index].iter().enumerate() {
                let g = gradients[index][at] + f64::from(coupled) * p;
                let m = beta1 * first[index][at] + (1.0 - beta1) * g;
                let v = beta2 * second[index][at] + (1.0 - beta2) * g * g;
                let stepped = p * f64::from(kept) - lr * m * factor / (v.sqrt() + epsilon);
                expected.iter_mut().zip([stepped, m, v]).for_each(|(to, value)| to.push(value));
            }
            let [m, v] = found.moments;
            for (found, expected) in [found.parameter, m, v].into_iter().zip(&expected) {
                assert_close(found, expected, DType::F32, &what);
            }
        }
    }
}

#[test]
fn a_step_of_many_tensors_equals_the_steps_of_each() {
    if !has_driver() {
        return;
    }
    // Bit for bit: both have 32 bits.
    let host = |tensors: Vec<GpuTensor>| tensors.into_iter().map(to_host).collect::<Vec<_>>();
    let lists = [1, 2, 3].map(tensors);
    let of = |index: usize| [0, 1, 2].map(|list| gpu(&lists[list][index]));
    let step = Sgd { lr: 0.1, weight_decay: 0.1, momentum: 0.9, share: 0.75, nesterov: true };
    let sgd = |indices: &[usize]| {
        let tensors = indices.iter().map(|index| {
            let [parameter, gradient, velocity] = of(*index);
            SgdTensors { parameter, gradient, velocity: (index % 3 != 0).then_some(velocity) }
        });
        let stepped = sgd_step(step, tensors.collect());
        let all = stepped.into_iter().flat_map(|one| std::iter::once(one.parameter).chain(one.velocity));
        host(all.collect())
    };
    let step = Adam { lr: 0.01, betas: [0.9, 0.999], factor: 0.25, epsilon: 1e-6, coupled: 0.1, kept: 0.9 };
    let adam = |indices: &[usize]| {
        let tensors = indices.iter().map(|index| {
            let [parameter, gradient, moment] = of(*index);
            AdamTensors {
                parameter,
                gradient: gradient.clone(),
                moments: [moment, gpu(&squares(&lists[0][*index]))],
            }
        });
        let stepped = adam_step(step, tensors.collect());
        host(stepped.into_iter().flat_map(|one| std::iter::once(one.parameter).chain(one.moments)).collect())
    };
    let all: Vec<usize> = (0..lists[0].len()).collect();
    let each = |step: &dyn Fn(&[usize]) -> Vec<Vec<f64>>| {
        all.iter().flat_map(|index| step(&[*index])).collect::<Vec<_>>()
    };
    assert_eq!(sgd(&all), each(&sgd));
    assert_eq!(adam(&all), each(&adam));
}

#[test]
fn a_step_overwrites_its_tensors_unless_somebody_holds_them() {
    if !has_driver() {
        return;
    }
    let step = Sgd { lr: 0.1, weight_decay: 0.0, momentum: 0.9, share: 1.0, nesterov: false };
    let (parameter, gradient) = (noise(40, 5), noise(40, 6));
    let kept = [gpu(&parameter), gpu(&gradient)];
    let [p, g] = kept.clone();
    let stepped = sgd_step(step, vec![SgdTensors { parameter: p, gradient: g, velocity: None }]);
    let [p, g] = kept;
    assert_eq!((to_host(p.clone()), to_host(g.clone())), (parameter, gradient));
    let in_place = sgd_step(step, vec![SgdTensors { parameter: p, gradient: g, velocity: None }]);
    for (one, other) in stepped.into_iter().zip(in_place) {
        assert_eq!(to_host(one.parameter), to_host(other.parameter));
        assert_eq!(one.velocity.map(to_host), other.velocity.map(to_host));
    }
}

#[test]
fn no_tensors_take_no_step() {
    if !has_driver() {
        return;
    }
    let step = Sgd { lr: 0.1, weight_decay: 0.0, momentum: 0.0, share: 1.0, nesterov: false };
    assert!(sgd_step::<oomph_gpu_kernels::GpuRuntime>(step, Vec::new()).is_empty());
}
