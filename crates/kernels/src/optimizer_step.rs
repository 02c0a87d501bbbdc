//! Optimizer steps, each in one pass over memory that overwrites the tensors it changes.

use burn::tensor::Tensor;
use burn_backend::DType;
use burn_flex::FlexTensor;
use oomph_core::{Account, charge};
use rayon::prelude::*;

use crate::{
    any_tensor::{AnyTensor, ranked},
    custom_op::CustomOp,
    flex_tensor::floats,
    gpu::{self, on_gpu},
    kernels::Kernels,
    sequence::zeros,
    simd::by_vectors,
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

impl SgdStep {
    /// Takes the step by `kernels` of our own. Gives the new parameter and velocity v. They overwrite the old ones, and the first velocity the
    /// gradient, if nobody else holds those.
    ///
    /// # Panics
    /// Panics if the tensors are not of 32 bits, or on another device than that of `kernels` and no capture device, or if
    /// `kernels` are composed.
    pub fn apply<const D: usize>(
        self,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        velocity: Option<Tensor<D>>,
        kernels: Kernels,
    ) -> (Tensor<D>, Option<Tensor<D>>) {
        if kernels == Kernels::Gpu {
            return self.apply_on_gpu(parameter, gradient, velocity);
        }
        let (lr, share) = (self.lr as f32, (1.0 - self.dampening) as f32);
        if self.momentum == 0.0 {
            let [parameter] = in_place("sgd", [parameter], Some(gradient), |[parameter], gradient| {
                for (parameter, gradient) in parameter.iter_mut().zip(gradient) {
                    *parameter -= self.decayed(*parameter, *gradient) * lr;
                }
            });
            return (parameter, None);
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
        (parameter, Some(velocity))
    }

    /// One launch.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "only the GPU's kernel reads it"))]
    fn apply_on_gpu<const D: usize>(
        self,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        velocity: Option<Tensor<D>>,
    ) -> (Tensor<D>, Option<Tensor<D>>) {
        let (has_momentum, has_velocity) = (self.momentum != 0.0, velocity.is_some());
        let shape = (parameter.dims().to_vec(), DType::F32);
        let inputs = match velocity {
            Some(velocity) => vec![parameter.into(), velocity.into(), gradient.into()],
            // With momentum the gradient becomes the velocity.
            None => vec![parameter.into(), gradient.into()],
        };
        let changed = 1 + usize::from(has_momentum);
        let operation = CustomOp { name: "sgd", inputs, outputs: vec![shape; changed], in_place: changed };
        let made = on_gpu!(operation, [], |inputs| {
            let mut inputs = inputs.into_iter();
            // As declared above.
            let mut next = || inputs.next().expect("the operation has the inputs that it declares");
            let parameter = next();
            let velocity = has_velocity.then(&mut next);
            let tensors =
                oomph_gpu_kernels::optimizer_step::SgdTensors { parameter, velocity, gradient: next() };
            let step = oomph_gpu_kernels::optimizer_step::Sgd {
                lr: self.lr as f32,
                weight_decay: self.weight_decay,
                momentum: self.momentum,
                share: (1.0 - self.dampening) as f32,
                nesterov: self.nesterov,
            };
            let made = oomph_gpu_kernels::optimizer_step::sgd_step(step, vec![tensors]);
            made.into_iter().flat_map(|made| std::iter::once(made.parameter).chain(made.velocity)).collect()
        });
        let mut made = made.into_iter().map(ranked);
        // The parameter is declared above.
        (made.next().expect("the operation has the outputs that it declares"), made.next())
    }

    #[inline(always)]
    fn decayed(self, parameter: f32, gradient: f32) -> f32 {
        if self.weight_decay == 0.0 { gradient } else { parameter * self.weight_decay + gradient }
    }

    #[inline(always)]
    fn direction(self, gradient: f32, velocity: f32) -> f32 {
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

impl AdamStep {
    /// A moment before the first step: zeros, in the shape of `like`.
    pub fn first_moment<const D: usize>(like: &Tensor<D>, kernels: Kernels) -> Tensor<D> {
        zeros(like.dims(), DType::F32, like.clone(), kernels)
    }

    /// Takes the step by `kernels` of our own, and returns the new parameter, m and v. They overwrite the old ones if nothing else holds those.
    ///
    /// # Panics
    /// Panics if the tensors are not of 32 bits, or on another device than that of `kernels` and no capture device, or if
    /// `kernels` are composed.
    pub fn apply<const D: usize>(
        self,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        moments: [Tensor<D>; 2],
        kernels: Kernels,
    ) -> (Tensor<D>, [Tensor<D>; 2]) {
        let Self { lr, betas: [beta1, beta2], epsilon, weight_decay, decoupled, time } = self;
        let time = i32::try_from(time).unwrap_or(i32::MAX);
        let root = (1.0 - beta2.powi(time)).sqrt();
        let (factor, epsilon) = (root / (1.0 - beta1.powi(time)), epsilon * root);
        let (coupled, kept) = match decoupled {
            true => (0.0, (1.0 - lr * weight_decay) as f32),
            false => (weight_decay as f32, 1.0),
        };
        let lr = lr as f32;
        let [m, v] = moments;
        if kernels == Kernels::Gpu {
            let shape = (parameter.dims().to_vec(), DType::F32);
            let operation = CustomOp {
                name: "adam",
                inputs: vec![parameter.into(), m.into(), v.into(), gradient.into()],
                outputs: vec![shape; 3],
                in_place: 3,
            };
            let [parameter, m, v] = gpu::outputs(on_gpu!(operation, [], |inputs| {
                let [parameter, m, v, gradient] = gpu::listed(inputs);
                let step = oomph_gpu_kernels::optimizer_step::Adam {
                    lr,
                    betas: [beta1, beta2],
                    factor,
                    epsilon,
                    coupled,
                    kept,
                };
                let moments = [m, v];
                let tensors = oomph_gpu_kernels::optimizer_step::AdamTensors { parameter, gradient, moments };
                let made = oomph_gpu_kernels::optimizer_step::adam_step(step, vec![tensors]);
                made.into_iter()
                    .flat_map(|made| std::iter::once(made.parameter).chain(made.moments))
                    .collect()
            }));
            return (ranked(parameter), [ranked(m), ranked(v)]);
        }
        let [parameter, m, v] = in_place("adam", [parameter, m, v], Some(gradient), |[p, m, v], gradient| {
            for (((p, m), v), gradient) in p.iter_mut().zip(m).zip(v).zip(gradient) {
                let gradient = if coupled == 0.0 { *gradient } else { *p * coupled + gradient };
                *m = *m * beta1 + gradient * (1.0 - beta1);
                *v = *v * beta2 + gradient * gradient * (1.0 - beta2);
                *p = *p * kept - *m * factor / (v.sqrt() + epsilon) * lr;
            }
        });
        (parameter, [m, v])
    }
}

/// Values that make a task worth its cost.
const TASK: usize = 32 << 10;

/// Lets `change` overwrite the tensors `changed` in pieces; it reads the same piece of `read`.
fn in_place<const D: usize, const N: usize>(
    name: &'static str,
    changed: [Tensor<D>; N],
    read: Option<Tensor<D>>,
    change: impl Fn([&mut [f32]; N], &[f32]) + Sync,
) -> [Tensor<D>; N] {
    let outputs = changed.iter().map(|tensor| (tensor.dims().to_vec(), DType::F32)).collect();
    let inputs = changed.into_iter().chain(read).map(AnyTensor::from).collect();
    let operation = CustomOp { name, inputs, outputs, in_place: N };
    let made = operation.run(|mut inputs| {
        let read = inputs.split_off(N);
        let all = read.first().map(floats);
        let mut pieces = pieces::<N>(&mut inputs);
        let work = |(index, piece): (usize, &mut [&mut [f32]; N])| {
            let read = all.map_or(&[][..], |all| &all[index * TASK..]);
            by_vectors(|| change(piece.each_mut().map(|values| &mut **values), read));
        };
        match &mut pieces[..] {
            [one] => work((0, one)),
            pieces => pieces.par_iter_mut().enumerate().for_each(work),
        }
        drop(pieces);
        inputs
    });
    made.map(ranked)
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
