//! Optimizer steps, each in one pass over memory that overwrites the tensors it changes.

use burn_backend::DType;
use burn_flex::FlexTensor;
use oomph_core::{Account, charge};
#[cfg(feature = "gpu")]
use oomph_gpu_kernels::GpuTensor;
use rayon::prelude::*;

use crate::{
    any_tensor::AnyTensor, custom_op::CustomOp, flex_tensor::floats, gpu::on_gpu, kernels::Kernels,
    sequence::zeros_by_kernel, simd::by_vectors, workers,
};

/// A step of stochastic gradient descent, as in PyTorch's `SGD`, by our own kernel.
///
/// ```text
/// g = g + λ p
/// v = μ v + (1 − dampening) g, and v = g in the first step
/// p = p − lr (g + μ v) with Nesterov's momentum, and p = p − lr v without
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdStep {
    /// The learning rate.
    pub lr: f64,
    /// λ; 0 for none.
    pub weight_decay: f32,
    /// μ. With 0 there is no momentum and no v.
    pub momentum: f32,
    /// The share of a gradient that does not enter v.
    pub dampening: f64,
    /// Whether the momentum is Nesterov's.
    pub nesterov: bool,
}

/// A parameter for [`SgdStep`], all tensors of 32 bits and one shape.
#[derive(Clone, Debug)]
pub struct SgdTensors {
    /// p.
    pub parameter: AnyTensor,
    /// g.
    pub gradient: AnyTensor,
    /// v; `None` in the first step, or without momentum.
    pub velocity: Option<AnyTensor>,
}

/// A parameter after [`SgdStep`].
#[derive(Clone, Debug)]
pub struct SgdStepped {
    /// p.
    pub parameter: AnyTensor,
    /// v; `None` without momentum.
    pub velocity: Option<AnyTensor>,
}

impl SgdStep {
    /// Takes the step on the CPU. Parameter and velocity overwrite the old ones, and the first velocity the gradient, if nobody
    /// else holds those.
    ///
    /// # Panics
    /// Panics if the tensors are not of 32 bits, or neither on the CPU nor on a capture device.
    pub fn apply(self, SgdTensors { parameter, gradient, velocity }: SgdTensors) -> SgdStepped {
        let (lr, share) = (self.lr as f32, (1.0 - self.dampening) as f32);
        if self.momentum == 0.0 {
            let [parameter] = in_place("sgd", [parameter], Some(gradient), |[parameter], gradient| {
                for (parameter, gradient) in parameter.iter_mut().zip(gradient) {
                    *parameter -= self.decayed(*parameter, *gradient) * lr;
                }
            });
            return SgdStepped { parameter, velocity: None };
        }
        let [parameter, velocity] = match velocity {
            Some(velocity) => {
                in_place("sgd", [parameter, velocity], Some(gradient), |[parameter, velocity], gradient| {
                    for ((parameter, velocity), gradient) in parameter.iter_mut().zip(velocity).zip(gradient)
                    {
                        let gradient = self.decayed(*parameter, *gradient);
                        *velocity = gradient * share + *velocity * self.momentum;
                        *parameter -= self.direction(gradient, *velocity) * lr;
                    }
                })
            }
            None => in_place("sgd", [parameter, gradient], None, |[parameter, velocity], _| {
                for (parameter, velocity) in parameter.iter_mut().zip(velocity) {
                    let gradient = self.decayed(*parameter, *velocity);
                    *velocity = gradient;
                    *parameter -= self.direction(gradient, gradient) * lr;
                }
            }),
        };
        SgdStepped { parameter, velocity: Some(velocity) }
    }

    /// As [`apply`](Self::apply), for many parameters on a GPU: one launch for each 48.
    ///
    /// # Panics
    /// Panics if the tensors are not of 32 bits, or neither on one GPU nor on a capture device.
    pub fn apply_on_gpu(self, parameters: Vec<SgdTensors>) -> Vec<SgdStepped> {
        let has_momentum = self.momentum != 0.0;
        let has_velocity: Vec<bool> = parameters.iter().map(|one| one.velocity.is_some()).collect();
        let (mut changed, mut velocities, mut read) = (Vec::new(), Vec::new(), Vec::new());
        for SgdTensors { parameter, gradient, velocity } in parameters {
            changed.push(parameter);
            match velocity {
                Some(velocity) if has_momentum => {
                    velocities.push(velocity);
                    read.push(gradient);
                }
                // The gradient becomes the velocity.
                None if has_momentum => velocities.push(gradient),
                _ => read.push(gradient),
            }
        }
        changed.append(&mut velocities);
        let count = has_velocity.len();
        let operation = changing_all("sgd", changed, read);
        let mut made = on_gpu!(operation, [], |inputs| self.run_on_gpu(&has_velocity, inputs));
        let velocities = made.split_off(count).into_iter().map(Some).chain(std::iter::repeat(None));
        made.into_iter()
            .zip(velocities)
            .map(|(parameter, velocity)| SgdStepped { parameter, velocity })
            .collect()
    }

    /// `inputs`: all parameters; with momentum all velocities, or the gradients that become them; the other gradients.
    #[cfg(feature = "gpu")]
    fn run_on_gpu(self, has_velocity: &[bool], mut inputs: Vec<GpuTensor>) -> Vec<GpuTensor> {
        let count = has_velocity.len();
        let mut rest = inputs.split_off(count);
        let read = if self.momentum == 0.0 { std::mem::take(&mut rest) } else { rest.split_off(count) };
        let (mut seconds, mut read) = (rest.into_iter(), read.into_iter());
        let tensors = inputs.into_iter().zip(has_velocity).map(|(parameter, has_velocity)| {
            let second = seconds.next();
            let (velocity, gradient) = match has_velocity {
                true if second.is_some() => (second, read.next()),
                _ => (None, second.or_else(|| read.next())),
            };
            // The caller lists it.
            let gradient = gradient.expect("every parameter has a gradient");
            oomph_gpu_kernels::optimizer_step::SgdTensors { parameter, gradient, velocity }
        });
        let step = oomph_gpu_kernels::optimizer_step::Sgd {
            lr: self.lr as f32,
            weight_decay: self.weight_decay,
            momentum: self.momentum,
            share: (1.0 - self.dampening) as f32,
            nesterov: self.nesterov,
        };
        let made = oomph_gpu_kernels::optimizer_step::sgd_step(step, tensors.collect());
        let (parameters, velocities): (Vec<_>, Vec<_>) =
            made.into_iter().map(|made| (made.parameter, made.velocity)).unzip();
        parameters.into_iter().chain(velocities.into_iter().flatten()).collect()
    }

    #[inline(always)]
    pub(crate) fn decayed(self, parameter: f32, gradient: f32) -> f32 {
        if self.weight_decay == 0.0 { gradient } else { parameter * self.weight_decay + gradient }
    }

    #[inline(always)]
    pub(crate) fn direction(self, gradient: f32, velocity: f32) -> f32 {
        if self.nesterov { velocity * self.momentum + gradient } else { velocity }
    }
}

/// A step of Adam (Kingma and Ba 2014, <https://arxiv.org/abs/1412.6980>) or AdamW (Loshchilov and Hutter 2017,
/// <https://arxiv.org/abs/1711.05101>), as in PyTorch, by our own kernel.
///
/// ```text
/// g = g + λ p (Adam), or p = p (1 − lr λ) (AdamW)
/// m = β₁ m + (1 − β₁) g
/// v = β₂ v + (1 − β₂) g²
/// p = p − lr m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε)
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamStep {
    /// The learning rate.
    pub lr: f64,
    /// β₁ and β₂.
    pub betas: [f32; 2],
    /// ε.
    pub epsilon: f32,
    /// λ; 0 for none.
    pub weight_decay: f64,
    /// Whether the decay is decoupled from the gradient, as in AdamW.
    pub decoupled: bool,
    /// t; 1 in the first step.
    pub time: usize,
}

/// A parameter for [`AdamStep`], all tensors of 32 bits and one shape.
#[derive(Clone, Debug)]
pub struct AdamTensors {
    /// p.
    pub parameter: AnyTensor,
    /// g.
    pub gradient: AnyTensor,
    /// m and v.
    pub moments: [AnyTensor; 2],
}

/// A parameter after [`AdamStep`].
#[derive(Clone, Debug)]
pub struct AdamStepped {
    /// p.
    pub parameter: AnyTensor,
    /// m and v.
    pub moments: [AnyTensor; 2],
}

/// What all elements have in common in a step of Adam.
#[derive(Clone, Copy)]
pub(crate) struct AdamFactors {
    /// The correction of both moments for their start at 0.
    pub(crate) factor: f32,
    /// ε, corrected too.
    pub(crate) epsilon: f32,
    /// λ of Adam.
    pub(crate) coupled: f32,
    /// 1 − lr λ of AdamW.
    pub(crate) kept: f32,
}

impl AdamFactors {
    /// The step of one element. Gives its new moments.
    #[inline(always)]
    pub(crate) fn update(
        self,
        lr: f32,
        [beta1, beta2]: [f32; 2],
        parameter: &mut f32,
        gradient: f32,
        [m, v]: [f32; 2],
    ) -> [f32; 2] {
        let Self { factor, epsilon, coupled, kept } = self;
        let gradient = if coupled == 0.0 { gradient } else { *parameter * coupled + gradient };
        let m = m * beta1 + gradient * (1.0 - beta1);
        let v = v * beta2 + gradient * gradient * (1.0 - beta2);
        *parameter = *parameter * kept - m * factor / (v.sqrt() + epsilon) * lr;
        [m, v]
    }
}

impl AdamStep {
    /// A moment before the first step: zeros, in the shape of `like`. `kernels` are our own.
    ///
    /// # Panics
    /// Panics if `kernels` are composed.
    pub fn first_moment(like: &AnyTensor, kernels: Kernels) -> AnyTensor {
        zeros_by_kernel(&like.dims(), DType::F32, like.clone(), kernels)
    }

    /// Takes the step on the CPU. Parameter and moments overwrite the old ones if nobody else holds those.
    ///
    /// # Panics
    /// Panics if the tensors are not of 32 bits, or neither on the CPU nor on a capture device.
    pub fn apply(self, AdamTensors { parameter, gradient, moments: [m, v] }: AdamTensors) -> AdamStepped {
        let (factors, lr, betas) = (self.factors(), self.lr as f32, self.betas);
        let [parameter, m, v] = in_place("adam", [parameter, m, v], Some(gradient), |[p, m, v], gradient| {
            for (((p, m), v), gradient) in p.iter_mut().zip(m).zip(v).zip(gradient) {
                [*m, *v] = factors.update(lr, betas, p, *gradient, [*m, *v]);
            }
        });
        AdamStepped { parameter, moments: [m, v] }
    }

    /// As [`apply`](Self::apply), for many parameters on a GPU: one launch for each 48.
    ///
    /// # Panics
    /// Panics if the tensors are not of 32 bits, or neither on one GPU nor on a capture device.
    pub fn apply_on_gpu(self, parameters: Vec<AdamTensors>) -> Vec<AdamStepped> {
        let mut changed = [(); 3].map(|()| Vec::with_capacity(parameters.len()));
        let mut read = Vec::with_capacity(parameters.len());
        for AdamTensors { parameter, gradient, moments: [m, v] } in parameters {
            changed.iter_mut().zip([parameter, m, v]).for_each(|(list, tensor)| list.push(tensor));
            read.push(gradient);
        }
        let count = read.len();
        let changed = changed.into_iter().flatten().collect();
        let operation = changing_all("adam", changed, read);
        let mut made = on_gpu!(operation, [], |inputs| self.run_on_gpu(inputs));
        let seconds = made.split_off(2 * count);
        let firsts = made.split_off(count);
        let stepped = made.into_iter().zip(firsts).zip(seconds);
        stepped.map(|((parameter, m), v)| AdamStepped { parameter, moments: [m, v] }).collect()
    }

    /// `inputs`: all parameters, all m, all v, all gradients.
    #[cfg(feature = "gpu")]
    fn run_on_gpu(self, mut inputs: Vec<GpuTensor>) -> Vec<GpuTensor> {
        let count = inputs.len() / 4;
        let gradients = inputs.split_off(3 * count);
        let AdamFactors { factor, epsilon, coupled, kept } = self.factors();
        let (lr, betas) = (self.lr as f32, self.betas);
        let step = oomph_gpu_kernels::optimizer_step::Adam { lr, betas, factor, epsilon, coupled, kept };
        let seconds = inputs.split_off(2 * count);
        let firsts = inputs.split_off(count);
        let tensors = inputs.into_iter().zip(gradients).zip(firsts.into_iter().zip(seconds));
        let tensors = tensors.map(|((parameter, gradient), (m, v))| {
            oomph_gpu_kernels::optimizer_step::AdamTensors { parameter, gradient, moments: [m, v] }
        });
        let made = oomph_gpu_kernels::optimizer_step::adam_step(step, tensors.collect());
        let mut lists = [(); 3].map(|()| Vec::with_capacity(made.len()));
        for made in made {
            let [m, v] = made.moments;
            lists.iter_mut().zip([made.parameter, m, v]).for_each(|(list, tensor)| list.push(tensor));
        }
        lists.into_iter().flatten().collect()
    }

    /// The factors of the step.
    pub(crate) fn factors(self) -> AdamFactors {
        let Self { lr, betas: [beta1, beta2], epsilon, weight_decay, decoupled, time } = self;
        let time = i32::try_from(time).unwrap_or(i32::MAX);
        let root = (1.0 - beta2.powi(time)).sqrt();
        let (factor, epsilon) = (root / (1.0 - beta1.powi(time)), epsilon * root);
        let (coupled, kept) = match decoupled {
            true => (0.0, (1.0 - lr * weight_decay) as f32),
            false => (weight_decay as f32, 1.0),
        };
        AdamFactors { factor, epsilon, coupled, kept }
    }
}

/// An operation that overwrites all tensors `changed`, and gives them back.
pub(crate) fn changing_all(name: &'static str, changed: Vec<AnyTensor>, read: Vec<AnyTensor>) -> CustomOp {
    let in_place = changed.len();
    let outputs = changed.iter().map(|tensor| (tensor.dims(), tensor.dtype())).collect();
    CustomOp { name, inputs: changed.into_iter().chain(read).collect(), outputs, in_place }
}

/// Values that make a task worth its cost.
const TASK: usize = 32 << 10;

/// Lets `change` overwrite the tensors `changed` in pieces; it reads the same piece of `read`.
fn in_place<const N: usize>(
    name: &'static str,
    changed: [AnyTensor; N],
    read: Option<AnyTensor>,
    change: impl Fn([&mut [f32]; N], &[f32]) + Sync,
) -> [AnyTensor; N] {
    let outputs = changed.iter().map(|tensor| (tensor.dims(), DType::F32)).collect();
    let inputs = changed.into_iter().chain(read).collect();
    let operation = CustomOp { name, inputs, outputs, in_place: N };
    operation.run(|mut inputs| {
        let read = inputs.split_off(N);
        let all = read.first().map(floats);
        let mut pieces = pieces::<N>(&mut inputs);
        let work = |(index, piece): (usize, &mut [&mut [f32]; N])| {
            let read = all.map_or(&[][..], |all| &all[index * TASK..]);
            by_vectors(|| change(piece.each_mut().map(|values| &mut **values), read));
        };
        match &mut pieces[..] {
            [one] => work((0, one)),
            pieces => workers::for_each(pieces.par_iter_mut().enumerate(), work),
        }
        drop(pieces);
        inputs
    })
}

/// The storage of all tensors, in pieces of [`TASK`].
fn pieces<const N: usize>(tensors: &mut [FlexTensor]) -> Vec<[&mut [f32]; N]> {
    let mut tensors = tensors.iter_mut();
    // A storage that somebody else holds is copied. The copies are charged to the device, and the list of pieces is not.
    let storages: [&mut [f32]; N] =
        std::array::from_fn(|_| tensors.next().map(FlexTensor::storage_mut).unwrap_or_default());
    let mut chunks = storages.map(|storage| storage.chunks_mut(TASK));
    charge(Account::Host, || {
        let count = chunks.first().map_or(0, ExactSizeIterator::len);
        let piece = |_| chunks.each_mut().map(|chunks| chunks.next().unwrap_or_default());
        (0..count).map(piece).collect()
    })
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor};
    use burn_ir::{OperationIr, ScalarIr, TensorStatus};

    use super::*;

    /// The operations that `record` makes on a capture device, and whether each input is consumed.
    fn recorded(record: impl FnOnce(&Device) -> Vec<AnyTensor>) -> Vec<(String, ScalarIr, Vec<bool>)> {
        let device = Device::capture();
        let graph = device.clone().capture_scope(|scope| {
            let kept = record(&device);
            let done = scope.complete([], []);
            drop(kept);
            done
        });
        let operations = graph.expect("the capture device records").graph.operations;
        let custom = operations.into_iter().filter_map(|operation| match operation {
            OperationIr::Custom(operation) => Some(operation),
            _ => None,
        });
        let consumed = |status: &TensorStatus| matches!(status, TensorStatus::ReadWrite);
        custom
            .map(|it| (it.id, it.scalars[0], it.inputs.iter().map(|input| consumed(&input.status)).collect()))
            .collect()
    }

    #[test]
    fn many_parameters_of_a_gpu_are_one_operation_in_place() {
        let new = |device: &Device| AnyTensor::from(Tensor::<1>::ones([8], device));
        let step = SgdStep { lr: 0.1, weight_decay: 0.0, momentum: 0.9, dampening: 0.0, nesterov: false };
        let of_sgd = recorded(|device| {
            let parameters = (0..3).map(|index| SgdTensors {
                parameter: new(device),
                gradient: new(device),
                // The second parameter takes its first step.
                velocity: (index != 1).then(|| new(device)),
            });
            let stepped = step.apply_on_gpu(parameters.collect());
            assert_eq!(stepped.len(), 3);
            stepped.into_iter().flat_map(|one| [Some(one.parameter), one.velocity]).flatten().collect()
        });
        assert_eq!(of_sgd, [("sgd".to_owned(), ScalarIr::UInt(6), vec![true; 8])]);

        let step = AdamStep {
            lr: 0.1,
            betas: [0.9, 0.999],
            epsilon: 1e-8,
            weight_decay: 0.0,
            decoupled: false,
            time: 1,
        };
        let of_adam = recorded(|device| {
            let parameters = (0..3).map(|_| AdamTensors {
                parameter: new(device),
                gradient: new(device),
                moments: [new(device), new(device)],
            });
            let stepped = step.apply_on_gpu(parameters.collect());
            stepped
                .into_iter()
                .flat_map(|AdamStepped { parameter, moments: [m, v] }| [parameter, m, v])
                .collect()
        });
        assert_eq!(of_adam, [("adam".to_owned(), ScalarIr::UInt(9), vec![true; 12])]);
    }
}
