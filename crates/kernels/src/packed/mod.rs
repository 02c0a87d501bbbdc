//! Optimizer steps whose moments are packed into 8 or 16 bits an element. A step computes in 32 bits and rounds what it stores.

mod codes;
mod format;
mod halves;
mod moment;
mod step;

use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_backend::DType;
use burn_flex::FlexTensor;
use oomph_core::{Account, charge};
#[cfg(feature = "gpu")]
use oomph_gpu_kernels::{GpuTensor, packed_step};
use rayon::prelude::*;

#[cfg(feature = "gpu")]
use crate::optimizer_step::AdamFactors;
use crate::{
    any_tensor::AnyTensor,
    flex_tensor::floats,
    gpu::on_gpu,
    kernels::Kernels,
    optimizer_step::{AdamStep, SgdStep, changing_all},
    sequence::zeros_by_kernel,
    simd::vectorised,
    workers,
};

pub use format::{MomentKind, PackedFormat};
pub use moment::StoredMoment;

use format::BLOCK;
use step::{Loops, MomentPiece, Piece, Update};

/// A step of Lion (Chen et al. 2023, <https://arxiv.org/abs/2302.06675>, algorithm 2).
///
/// ```text
/// u = sign(β₁ m + (1 − β₁) g)
/// p = p (1 − lr λ) − lr u
/// m = β₂ m + (1 − β₂) g
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LionStep {
    /// The learning rate.
    pub lr: f64,
    /// β₁ and β₂.
    pub betas: [f32; 2],
    /// λ; 0 for none.
    pub weight_decay: f64,
}

/// The rule of a packed step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PackedRule {
    /// SGD with momentum, which is not 0. Its one moment is the velocity.
    Sgd(SgdStep),
    /// Adam or AdamW, with the moments m and v. [`PackedStep`] sets its time.
    Adam(AdamStep),
    /// Lion. Its one moment is m.
    Lion(LionStep),
}

impl PackedRule {
    /// What its moments hold.
    pub fn moments(&self) -> &'static [MomentKind] {
        match self {
            Self::Sgd(_) | Self::Lion(_) => &[MomentKind::Signed],
            Self::Adam(_) => &[MomentKind::Signed, MomentKind::Square],
        }
    }
}

/// A step of a rule with packed moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PackedStep {
    /// The rule.
    pub rule: PackedRule,
    /// How the moments are packed.
    pub format: PackedFormat,
    /// The number of the step; 1 for the first.
    pub time: usize,
}

/// A parameter for [`PackedStep`], of 32 bits, as its gradient is.
#[derive(Clone, Debug)]
pub struct PackedTensors {
    /// p.
    pub parameter: AnyTensor,
    /// g.
    pub gradient: AnyTensor,
    /// The [packed](first_moment) moments.
    pub moments: Vec<AnyTensor>,
}

/// A parameter after [`PackedStep`].
#[derive(Clone, Debug)]
pub struct PackedStepped {
    /// p.
    pub parameter: AnyTensor,
    /// The packed moments.
    pub moments: Vec<AnyTensor>,
}

/// A moment before the first step, on the device of `like`, the gradient: zeros. `kernels` are our own.
///
/// # Panics
/// Panics if `kernels` are composed.
pub fn first_moment(format: PackedFormat, like: &AnyTensor, kernels: Kernels) -> AnyTensor {
    zeros_by_kernel(&[format.words(like.elements())], DType::U32, like.clone(), kernels)
}

/// The tensor of a stored moment, on `device`.
pub fn loaded_moment(moment: StoredMoment, device: &Device) -> AnyTensor {
    let words = moment.into_words();
    let shape = [words.len()];
    Tensor::<1, Int>::from_data(TensorData::new(words, shape), (device, DType::U32)).into()
}

impl PackedStep {
    /// Takes the step on the CPU. Parameter and moments overwrite the old ones if nobody else holds those.
    ///
    /// # Panics
    /// Panics if parameter or gradient are not of 32 bits, if the moments are not those of the rule and the format, or if the
    /// tensors are neither on the CPU nor on a capture device.
    pub fn apply(self, tensors: PackedTensors) -> PackedStepped {
        let PackedTensors { parameter, gradient, moments } = tensors;
        let mut changed = vec![parameter];
        changed.extend(moments);
        let operation = changing_all(self.name(), changed, vec![gradient]);
        let mut made = operation.run_all(Default::default(), |inputs| self.run(inputs)).into_iter();
        // The operation gives back what it changes.
        let parameter = made.next().expect("the parameter is an output");
        PackedStepped { parameter, moments: made.collect() }
    }

    /// As [`apply`](Self::apply), for many parameters on a GPU: one launch for some dozens.
    ///
    /// # Panics
    /// As [`apply`](Self::apply), if the tensors are neither on one GPU nor on a capture device.
    pub fn apply_on_gpu(self, parameters: Vec<PackedTensors>) -> Vec<PackedStepped> {
        let count = parameters.len();
        let moments = self.rule.moments().len();
        let mut changed = vec![Vec::with_capacity(count); 1 + moments];
        let mut read = Vec::with_capacity(count);
        for PackedTensors { parameter, gradient, moments } in parameters {
            changed
                .iter_mut()
                .zip(std::iter::once(parameter).chain(moments))
                .for_each(|(list, one)| list.push(one));
            read.push(gradient);
        }
        let operation = changing_all(self.name(), changed.into_iter().flatten().collect(), read);
        let mut made = on_gpu!(operation, [], |inputs| self.run_on_gpu(inputs));
        let moments: Vec<Vec<AnyTensor>> =
            (0..moments).rev().map(|moment| made.split_off((1 + moment) * count)).collect();
        let mut moments: Vec<_> = moments.into_iter().rev().map(Vec::into_iter).collect();
        let stepped = made.into_iter().map(|parameter| PackedStepped {
            parameter,
            moments: moments.iter_mut().filter_map(Iterator::next).collect(),
        });
        stepped.collect()
    }

    /// The name in recordings. Formats take different times.
    fn name(&self) -> &'static str {
        match (self.rule, self.format) {
            (PackedRule::Sgd(_), PackedFormat::Bf16) => "sgd_bf16",
            (PackedRule::Sgd(_), PackedFormat::Int8) => "sgd_int8",
            (PackedRule::Adam(_), PackedFormat::Bf16) => "adam_bf16",
            (PackedRule::Adam(_), PackedFormat::Int8) => "adam_int8",
            (PackedRule::Lion(_), PackedFormat::Bf16) => "lion_bf16",
            (PackedRule::Lion(_), PackedFormat::Int8) => "lion_int8",
        }
    }

    /// `inputs`: the parameter, its moments, the gradient.
    fn run(self, inputs: Vec<FlexTensor>) -> Vec<FlexTensor> {
        match self.rule {
            PackedRule::Sgd(step) => self.run_by(step::Sgd { step, share: self.share(&step) }, inputs),
            PackedRule::Adam(step) => {
                let factors = AdamStep { time: self.time, ..step }.factors();
                self.run_by(step::Adam { lr: step.lr as f32, betas: step.betas, factors }, inputs)
            }
            PackedRule::Lion(step) => {
                let LionStep { lr, betas, .. } = step;
                self.run_by(step::Lion { lr: lr as f32, betas, kept: step.kept() }, inputs)
            }
        }
    }

    /// The share of a gradient that enters the velocity: in the first step all of it.
    fn share(&self, step: &SgdStep) -> f32 {
        if self.time == 1 { 1.0 } else { (1.0 - step.dampening) as f32 }
    }

    fn run_by<const M: usize>(self, update: impl Update<M>, mut inputs: Vec<FlexTensor>) -> Vec<FlexTensor> {
        let gradient = inputs.split_off(1 + M);
        let gradient = gradient.first().map(floats).unwrap_or_default();
        let time = self.time as u32;
        let work = |piece: &mut Piece<'_, M>| vectorised(Loops { update, format: self.format, time, piece });
        let mut pieces = self.pieces::<M>(&mut inputs, gradient);
        match &mut pieces[..] {
            [one] => work(one),
            pieces => workers::for_each(pieces.par_iter_mut(), work),
        }
        drop(pieces);
        inputs
    }

    /// The storage of parameter and moments, in pieces.
    fn pieces<'a, const M: usize>(
        self,
        changed: &'a mut [FlexTensor],
        gradient: &'a [f32],
    ) -> Vec<Piece<'a, M>> {
        let mut changed = changed.iter_mut();
        let parameter: &mut [f32] = changed.next().map(FlexTensor::storage_mut).unwrap_or_default();
        // A storage that somebody else holds is copied. The copies are charged to the device, and the list of pieces is not.
        let moments: [&mut [u32]; M] =
            std::array::from_fn(|_| changed.next().map(FlexTensor::storage_mut).unwrap_or_default());
        let mut moments = moments.map(|words| {
            let (words, scales) = words.split_at_mut(self.format.words_of_codes(parameter.len()));
            (words.chunks_mut(self.format.words_of_codes(TASK)), scales.chunks_mut(TASK / BLOCK))
        });
        charge(Account::Host, || {
            let parts = parameter.chunks_mut(TASK).zip(gradient.chunks(TASK)).enumerate();
            parts
                .map(|(index, (parameter, gradient))| Piece {
                    first: index * TASK,
                    parameter,
                    gradient,
                    moments: moments.each_mut().map(|(words, scales)| MomentPiece {
                        words: words.next().unwrap_or_default(),
                        scales: scales.next().unwrap_or_default(),
                    }),
                })
                .collect()
        })
    }

    /// `inputs`: all parameters, all of each moment, all gradients.
    #[cfg(feature = "gpu")]
    fn run_on_gpu(self, inputs: Vec<GpuTensor>) -> Vec<GpuTensor> {
        let count = inputs.len() / (2 + self.rule.moments().len());
        let mut lists = inputs.into_iter();
        let mut list = || lists.by_ref().take(count).collect::<Vec<_>>();
        let parameters = list();
        let moments: Vec<Vec<GpuTensor>> = self.rule.moments().iter().map(|_| list()).collect();
        let mut moments: Vec<_> = moments.into_iter().map(Vec::into_iter).collect();
        let tensors = parameters.into_iter().zip(list()).map(|(parameter, gradient)| packed_step::Tensors {
            parameter,
            gradient,
            moments: moments.iter_mut().filter_map(Iterator::next).collect(),
        });
        packed_step::packed_step(self.on_gpu(), tensors.collect())
    }

    #[cfg(feature = "gpu")]
    fn on_gpu(self) -> packed_step::Step {
        let (rule, scalars) = match self.rule {
            PackedRule::Sgd(step) => {
                let scalars = packed_step::Scalars {
                    lr: step.lr as f32,
                    betas: [step.momentum, 0.0],
                    factor: self.share(&step),
                    coupled: step.weight_decay,
                    ..Default::default()
                };
                (packed_step::Rule::Sgd { nesterov: step.nesterov }, scalars)
            }
            PackedRule::Adam(step) => {
                let AdamFactors { factor, epsilon, coupled, kept } =
                    AdamStep { time: self.time, ..step }.factors();
                let (lr, betas) = (step.lr as f32, step.betas);
                (packed_step::Rule::Adam, packed_step::Scalars { lr, betas, factor, epsilon, coupled, kept })
            }
            PackedRule::Lion(step) => {
                let (lr, betas, kept) = (step.lr as f32, step.betas, step.kept());
                (packed_step::Rule::Lion, packed_step::Scalars { lr, betas, kept, ..Default::default() })
            }
        };
        let format = match self.format {
            PackedFormat::Bf16 => packed_step::Format::Bf16,
            PackedFormat::Int8 => packed_step::Format::Int8,
        };
        packed_step::Step { rule, scalars, format, time: self.time as u32 }
    }
}

impl LionStep {
    fn kept(&self) -> f32 {
        (1.0 - self.lr * self.weight_decay) as f32
    }
}

/// Elements that make a task worth its cost: whole blocks.
const TASK: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;

    const FORMATS: [PackedFormat; 2] = [PackedFormat::Bf16, PackedFormat::Int8];

    const SGD: SgdStep =
        SgdStep { lr: 0.1, weight_decay: 0.01, momentum: 0.9, dampening: 0.5, nesterov: true };
    const ADAM: AdamStep = AdamStep {
        lr: 0.01,
        betas: [0.9, 0.999],
        epsilon: 1e-8,
        weight_decay: 0.1,
        decoupled: true,
        time: 0,
    };
    const LION: LionStep = LionStep { lr: 0.01, betas: [0.9, 0.99], weight_decay: 0.1 };

    fn floats(values: &[f32]) -> AnyTensor {
        AnyTensor::floats(values.to_vec(), &[values.len()], &Device::flex())
    }

    fn host(tensor: &AnyTensor) -> Vec<f32> {
        tensor.to_host().expect("the CPU does not fail")
    }

    /// Parameter and moments.
    struct Trained {
        parameter: Vec<f32>,
        moments: Vec<AnyTensor>,
    }

    impl Trained {
        fn new(rule: PackedRule, format: PackedFormat, elements: usize) -> Self {
            let parameter = vec![0.5; elements];
            let like = floats(&parameter);
            let moments = rule.moments().iter().map(|_| first_moment(format, &like, Kernels::Cpu)).collect();
            Self { parameter, moments }
        }

        fn step(self, step: PackedStep, gradient: &[f32]) -> Self {
            let Self { parameter, moments } = self;
            let tensors =
                PackedTensors { parameter: floats(&parameter), gradient: floats(gradient), moments };
            let stepped = step.apply(tensors);
            Self { parameter: host(&stepped.parameter), moments: stepped.moments }
        }

        fn moment(&self, format: PackedFormat, rule: PackedRule, index: usize) -> Vec<f32> {
            let words = self.moments[index].clone().into_data().expect("the CPU does not fail");
            let words = words.try_to_vec::<u32>().expect("it has words");
            StoredMoment::of_words(format, &words, self.parameter.len()).values(rule.moments()[index])
        }
    }

    /// Several tasks, and a last block that is not whole.
    const ELEMENTS: usize = 2 * TASK + 777;

    fn gradient(step: usize) -> Vec<f32> {
        (0..ELEMENTS).map(|at| (at as f32 * 0.37 + step as f32).sin() * 10f32.powi(at as i32 % 3)).collect()
    }

    #[test]
    fn steps_are_those_of_the_formula() {
        for format in FORMATS {
            for rule in [PackedRule::Sgd(SGD), PackedRule::Adam(ADAM), PackedRule::Lion(LION)] {
                let mut trained = Trained::new(rule, format, ELEMENTS);
                for time in 1..=3 {
                    let gradient = gradient(time);
                    let before: Vec<Vec<f32>> =
                        (0..rule.moments().len()).map(|index| trained.moment(format, rule, index)).collect();
                    let parameter = trained.parameter.clone();
                    trained = trained.step(PackedStep { rule, format, time }, &gradient);
                    for at in (0..ELEMENTS).step_by(13) {
                        let moments = before.iter().map(|moment| f64::from(moment[at])).collect::<Vec<_>>();
                        let right =
                            expected(rule, time, f64::from(parameter[at]), f64::from(gradient[at]), &moments);
                        let found = f64::from(trained.parameter[at]);
                        assert!(
                            (found - right).abs() < 1e-5 * right.abs().max(1.0),
                            "{format:?} {rule:?} {time} {at}: {found} instead of {right}"
                        );
                    }
                }
            }
        }
    }

    /// The parameter after a step, in 64 bits.
    fn expected(rule: PackedRule, time: usize, p: f64, g: f64, moments: &[f64]) -> f64 {
        match rule {
            PackedRule::Sgd(_) => {
                let g = g + 0.01 * p;
                let velocity = if time == 1 { g } else { 0.9 * moments[0] + 0.5 * g };
                p - 0.1 * (g + 0.9 * velocity)
            }
            PackedRule::Adam(_) => {
                let (m, v) = (0.9 * moments[0] + 0.1 * g, 0.999 * moments[1] + 0.001 * g * g);
                let (m, v) = (m / (1.0 - 0.9f64.powi(time as i32)), v / (1.0 - 0.999f64.powi(time as i32)));
                p * (1.0 - 0.001) - 0.01 * m / (v.sqrt() + 1e-8)
            }
            PackedRule::Lion(_) => {
                let direction = 0.9 * moments[0] + 0.1 * g;
                p * (1.0 - 0.001) - 0.01 * if direction == 0.0 { 0.0 } else { direction.signum() }
            }
        }
    }

    /// How far the steps of Adam with packed moments are from those in 32 bits, as a share of these, after many steps with
    /// gradients whose sizes differ by several decades within a block, as those of a network do.
    fn share_of_difference(format: PackedFormat) -> f64 {
        const COUNT: usize = 4096;
        let mut generator = oomph_core::Generator::at(oomph_core::Key::new(7));
        let mut normal = || (0..12).map(|_| f64::from(generator.uniform())).sum::<f64>() as f32 - 6.0;
        let sizes: Vec<f32> = (0..COUNT).map(|_| 10f32.powf(0.7 * normal())).collect();
        let rule = AdamStep { weight_decay: 0.0, ..ADAM };
        let mut packed = Trained::new(PackedRule::Adam(rule), format, COUNT);
        let mut wide = [vec![0.0f32; COUNT], vec![0.0f32; COUNT]];
        let mut share = 0.0;
        for time in 1..=600 {
            let gradient: Vec<f32> = sizes.iter().map(|size| (normal() + 0.1) * size).collect();
            packed.parameter = vec![0.0; COUNT];
            packed = packed.step(PackedStep { rule: PackedRule::Adam(rule), format, time }, &gradient);
            let factors = AdamStep { time, ..rule }.factors();
            let (mut difference, mut whole) = (0.0, 0.0);
            for at in 0..COUNT {
                let mut parameter = 0.0;
                let [m, v] = factors.update(
                    0.01,
                    rule.betas,
                    &mut parameter,
                    gradient[at],
                    [wide[0][at], wide[1][at]],
                );
                (wide[0][at], wide[1][at]) = (m, v);
                difference += f64::from(packed.parameter[at] - parameter).powi(2);
                whole += f64::from(parameter).powi(2);
            }
            share = (difference / whole).sqrt();
            assert!(share < 0.5, "step {time}: {share}");
        }
        share
    }

    #[test]
    fn rounded_moments_make_nearly_the_same_steps() {
        let [bf16, int8] = FORMATS.map(share_of_difference);
        assert!(bf16 < 0.04 && int8 < 0.25, "{bf16} {int8}");
    }

    #[test]
    fn a_step_overwrites_what_nobody_else_holds() {
        for format in FORMATS {
            let parameter = floats(&[1.0; 300]);
            let before = Storage::of(&parameter);
            let moments = vec![first_moment(format, &parameter, Kernels::Cpu)];
            let held = moments.clone();
            let tensors = PackedTensors { parameter, gradient: floats(&[1.0; 300]), moments };
            let stepped = PackedStep { rule: PackedRule::Lion(LION), format, time: 1 }.apply(tensors);
            assert_eq!(Storage::of(&stepped.parameter), before);
            let words = |tensor: &AnyTensor| {
                tensor.clone().into_data().expect("the CPU does not fail").try_to_vec::<u32>().expect("words")
            };
            assert!(words(&held[0]).iter().all(|word| *word == 0), "what somebody holds is copied");
            assert!(words(&stepped.moments[0]).iter().any(|word| *word != 0));
        }
    }

    #[test]
    fn steps_are_recorded_in_place() {
        use burn_ir::{OperationIr, TensorStatus};
        for kernels in [Kernels::Cpu, Kernels::Gpu] {
            let device = Device::capture();
            let graph = device.clone().capture_scope(|scope| {
                let new = || AnyTensor::zeros(&[5000], &device);
                let tensors = |_| {
                    let (parameter, gradient) = (new(), new());
                    let moments =
                        [(); 2].map(|()| first_moment(PackedFormat::Int8, &gradient, kernels)).into();
                    PackedTensors { parameter, gradient, moments }
                };
                let step = PackedStep { rule: PackedRule::Adam(ADAM), format: PackedFormat::Int8, time: 1 };
                let kept: Vec<PackedStepped> = match kernels {
                    Kernels::Gpu => step.apply_on_gpu((0..2).map(tensors).collect()),
                    _ => vec![step.apply(tensors(0))],
                };
                let done = scope.complete([], []);
                drop(kept);
                done
            });
            let operations = graph.expect("the capture device records").graph.operations;
            let steps: Vec<_> = operations
                .into_iter()
                .filter_map(|operation| match operation {
                    OperationIr::Custom(operation) if operation.id == "adam_int8" => Some(operation),
                    _ => None,
                })
                .collect();
            let [step] = &steps[..] else { panic!("{} steps", steps.len()) };
            assert!(step.inputs.iter().all(|input| matches!(input.status, TensorStatus::ReadWrite)));
            let words = step.outputs.iter().filter(|output| output.dtype == DType::U32);
            assert!(
                words.clone().count() >= 2
                    && words.clone().all(|output| output.shape.num_elements() == 40 * 33)
            );
        }
    }
}
