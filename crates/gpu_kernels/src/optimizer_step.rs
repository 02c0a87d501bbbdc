//! Optimizer steps over many tensors in few launches. Each overwrites the tensors that it changes.

use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::{
    batches::{Batch, Kind, at_once, batches, position},
    launch::{addresses, cube, length, owned},
    tensor::contiguous,
};

/// A step of stochastic gradient descent, as in PyTorch's `SGD`:
///
/// ```text
/// g = g + λ p
/// v = μ v + share · g, and v = g in the first step
/// p = p − lr (g + μ v) with Nesterov's momentum, and p = p − lr v without
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sgd {
    /// The learning rate.
    pub lr: f32,
    /// λ; 0 for none.
    pub weight_decay: f32,
    /// μ. With 0 there is no momentum and no v.
    pub momentum: f32,
    /// 1 − dampening: the share of a gradient that enters v.
    pub share: f32,
    /// Whether the momentum is Nesterov's.
    pub nesterov: bool,
}

/// A parameter for [`sgd_step`], all tensors of 32 bits and one shape.
#[derive(Clone, Debug)]
pub struct SgdTensors<R: CubeRuntime> {
    /// p.
    pub parameter: CubeTensor<R>,
    /// g.
    pub gradient: CubeTensor<R>,
    /// v; `None` in the first step, or without momentum.
    pub velocity: Option<CubeTensor<R>>,
}

/// A parameter after [`sgd_step`].
#[derive(Clone, Debug)]
pub struct SgdStepped<R: CubeRuntime> {
    /// p.
    pub parameter: CubeTensor<R>,
    /// v; `None` without momentum.
    pub velocity: Option<CubeTensor<R>>,
}

/// A step of Adam or AdamW, as in PyTorch:
///
/// ```text
/// g = g + coupled · p
/// m = β₁ m + (1 − β₁) g
/// v = β₂ v + (1 − β₂) g²
/// p = kept · p − lr · m · factor / (√v + ε)
/// ```
///
/// In step t, with r = √(1 − β₂ᵗ), `factor` is r / (1 − β₁ᵗ).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// The learning rate.
    pub lr: f32,
    /// β₁ and β₂.
    pub betas: [f32; 2],
    /// The correction of both moments for their start at 0.
    pub factor: f32,
    /// ε times r.
    pub epsilon: f32,
    /// λ of Adam; 0 for AdamW.
    pub coupled: f32,
    /// 1 − lr λ of AdamW; 1 for Adam.
    pub kept: f32,
}

/// A parameter for [`adam_step`], all tensors of 32 bits and one shape.
#[derive(Clone, Debug)]
pub struct AdamTensors<R: CubeRuntime> {
    /// p.
    pub parameter: CubeTensor<R>,
    /// g.
    pub gradient: CubeTensor<R>,
    /// m and v.
    pub moments: [CubeTensor<R>; 2],
}

/// A parameter after [`adam_step`].
#[derive(Clone, Debug)]
pub struct AdamStepped<R: CubeRuntime> {
    /// p.
    pub parameter: CubeTensor<R>,
    /// m and v.
    pub moments: [CubeTensor<R>; 2],
}

/// Takes the step for all `tensors`, which are on one device. Parameters and velocities overwrite the old ones, and the first
/// velocity the gradient, where nobody else holds those; otherwise they are copied before.
///
/// One launch for each 48 tensors whose elements are a multiple of 4, and for each 48 others; those with a velocity apart from
/// those without. None beside these, if nothing is copied. Vulkan takes fewer tensors at once.
///
/// # Panics
/// Panics if a tensor is not of 32-bit floats, or those of a parameter differ in their number of elements.
pub fn sgd_step<R: CubeRuntime>(step: Sgd, tensors: Vec<SgdTensors<R>>) -> Vec<SgdStepped<R>> {
    let has_momentum = step.momentum != 0.0;
    let prepared = tensors.into_iter().map(|SgdTensors { parameter, gradient, velocity }| {
        let velocity = velocity.filter(|_| has_momentum).map(owned);
        let starts = has_momentum && velocity.is_none();
        // The gradient becomes the velocity.
        let gradient = if starts { lasting(gradient) } else { contiguous(gradient) };
        assert_alike(&parameter, [Some(&gradient), velocity.as_ref()].into_iter().flatten());
        SgdTensors { parameter: owned(parameter), gradient, velocity }
    });
    let tensors: Vec<SgdTensors<R>> = prepared.collect();
    if let Some(like) = tensors.first() {
        let at_once = at_once(&like.parameter, 3, 0);
        for batch in batches(&tensors, at_once, |one| Kind::of(&one.parameter, one.velocity.is_some())) {
            launch_sgd(step, &batch);
        }
    }
    let stepped = tensors.into_iter().map(|SgdTensors { parameter, gradient, velocity }| {
        let velocity = if has_momentum { velocity.or(Some(gradient)) } else { None };
        SgdStepped { parameter, velocity }
    });
    stepped.collect()
}

/// Takes the step for all `tensors`, which are on one device. Parameters and moments overwrite the old ones, where nobody else
/// holds those; otherwise they are copied before.
///
/// One launch for each 48 tensors whose elements are a multiple of 4, and for each 48 others. None beside these, if nothing is
/// copied. Vulkan takes fewer tensors at once.
///
/// # Panics
/// Panics if a tensor is not of 32-bit floats, or those of a parameter differ in their number of elements.
pub fn adam_step<R: CubeRuntime>(step: Adam, tensors: Vec<AdamTensors<R>>) -> Vec<AdamStepped<R>> {
    let prepared = tensors.into_iter().map(|AdamTensors { parameter, gradient, moments }| {
        assert_alike(&parameter, moments.iter().chain([&gradient]));
        AdamTensors {
            parameter: owned(parameter),
            gradient: contiguous(gradient),
            moments: moments.map(owned),
        }
    });
    let tensors: Vec<AdamTensors<R>> = prepared.collect();
    if let Some(like) = tensors.first() {
        for batch in batches(&tensors, at_once(&like.parameter, 4, 0), |one| Kind::of(&one.parameter, true)) {
            launch_adam(step, &batch);
        }
    }
    let stepped =
        tensors.into_iter().map(|AdamTensors { parameter, moments, .. }| AdamStepped { parameter, moments });
    stepped.collect()
}

/// The kernels read and write as many elements of each tensor as the parameter has.
fn assert_alike<'a, R: CubeRuntime>(
    parameter: &CubeTensor<R>,
    others: impl IntoIterator<Item = &'a CubeTensor<R>>,
) {
    for other in others {
        assert_eq!(
            (other.dtype, length(other)),
            (parameter.dtype, length(parameter)),
            "a parameter's tensors are alike"
        );
    }
}

/// The gradient as memory for the whole training. A view of a larger buffer, such as a bucket of reduced gradients, would keep
/// all of that.
fn lasting<R: CubeRuntime>(gradient: CubeTensor<R>) -> CubeTensor<R> {
    let gradient = owned(gradient);
    if gradient.is_contiguous_buffer() { gradient } else { crate::cast::copied(&gradient) }
}

fn launch_sgd<R: CubeRuntime>(step: Sgd, batch: &Batch<'_, SgdTensors<R>>) {
    let Sgd { lr, weight_decay, momentum, share, nesterov } = step;
    let grid = batch.grid(1, |one| &one.parameter);
    let tensors = batch.tensors.iter().zip(&grid.places).map(|(one, place)| {
        let [parameter, gradient] = [&one.parameter, &one.gradient].map(|one| one.clone().into_buffer_arg());
        let velocity = one.velocity.clone().map(CubeTensor::into_buffer_arg);
        SgdBuffersLaunch::new(parameter, gradient, velocity.into(), place.vectors, place.first_cube)
    });
    let parameters: Vec<_> = batch.tensors.iter().map(|one| &one.parameter).collect();
    let scalars = SgdScalarsLaunch::new(lr, weight_decay, momentum, share);
    // SAFETY: all tensors of a parameter have as many vectors as are stated, and the kernel touches no others.
    unsafe {
        step_sgd::launch_unchecked::<R>(
            &parameters[0].client,
            grid.count(parameters[0]),
            cube(),
            addresses(&parameters),
            batch.kind.width,
            tensors.collect(),
            scalars,
            momentum != 0.0,
            nesterov,
        );
    }
}

fn launch_adam<R: CubeRuntime>(step: Adam, batch: &Batch<'_, AdamTensors<R>>) {
    let Adam { lr, betas: [beta1, beta2], factor, epsilon, coupled, kept } = step;
    let grid = batch.grid(1, |one| &one.parameter);
    let tensors = batch.tensors.iter().zip(&grid.places).map(|(one, place)| {
        let [first, second] = &one.moments;
        let [parameter, gradient, first, second] =
            [&one.parameter, &one.gradient, first, second].map(|one| one.clone().into_buffer_arg());
        AdamBuffersLaunch::new(parameter, gradient, first, second, place.vectors, place.first_cube)
    });
    let parameters: Vec<_> = batch.tensors.iter().map(|one| &one.parameter).collect();
    let scalars = AdamScalarsLaunch::new(lr, beta1, beta2, factor, epsilon, coupled, kept);
    // SAFETY: as above.
    unsafe {
        step_adam::launch_unchecked::<R>(
            &parameters[0].client,
            grid.count(parameters[0]),
            cube(),
            addresses(&parameters),
            batch.kind.width,
            tensors.collect(),
            scalars,
        );
    }
}

#[derive(CubeType, CubeLaunch)]
struct SgdBuffers<N: Size> {
    parameter: Box<[Vector<f32, N>]>,
    gradient: Box<[Vector<f32, N>]>,
    velocity: ComptimeOption<Box<[Vector<f32, N>]>>,
    vectors: usize,
    first_cube: usize,
}

#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct SgdScalars {
    lr: f32,
    weight_decay: f32,
    momentum: f32,
    share: f32,
}

/// The cubes have one tensor after the other.
#[cube(launch_unchecked, address_type = "dynamic")]
fn step_sgd<N: Size>(
    mut tensors: Sequence<SgdBuffers<N>>,
    step: SgdScalars,
    #[comptime] has_momentum: bool,
    #[comptime] nesterov: bool,
) {
    let count = tensors.len();
    step_sgd_among(&mut tensors, &step, 0usize, count, has_momentum, nesterov);
}

/// Takes the step for the cube's tensor, which is among those from `from` to before `to`. A few comparisons find it.
#[cube]
fn step_sgd_among<N: Size>(
    tensors: &mut Sequence<SgdBuffers<N>>,
    step: &SgdScalars,
    #[comptime] from: usize,
    #[comptime] to: usize,
    #[comptime] has_momentum: bool,
    #[comptime] nesterov: bool,
) {
    if comptime!(to - from == 1) {
        let tensor = tensors.index_mut(from);
        let at = position(tensor.first_cube);
        if at < tensor.vectors {
            tensor.step(at, step, has_momentum, nesterov);
        }
    } else {
        let middle = comptime!((from + to) / 2);
        if CUBE_POS < tensors.index(middle).first_cube {
            step_sgd_among(tensors, step, from, middle, has_momentum, nesterov);
        } else {
            step_sgd_among(tensors, step, middle, to, has_momentum, nesterov);
        }
    }
}

#[cube]
impl<N: Size> SgdBuffers<N> {
    fn step(
        &mut self,
        at: usize,
        step: &SgdScalars,
        #[comptime] has_momentum: bool,
        #[comptime] nesterov: bool,
    ) {
        let parameter = self.parameter[at];
        let gradient = parameter * Vector::new(step.weight_decay) + self.gradient[at];
        let mut velocity = gradient;
        #[comptime]
        match &mut self.velocity {
            ComptimeOption::Some(velocities) => {
                velocity = gradient * Vector::new(step.share) + velocities[at] * Vector::new(step.momentum);
                velocities[at] = velocity;
            }
            ComptimeOption::None => {
                if comptime!(has_momentum) {
                    self.gradient[at] = velocity;
                }
            }
        }
        if comptime!(nesterov && has_momentum) {
            velocity = velocity * Vector::new(step.momentum) + gradient;
        }
        self.parameter[at] = parameter - velocity * Vector::new(step.lr);
    }
}

#[derive(CubeType, CubeLaunch)]
struct AdamBuffers<N: Size> {
    parameter: Box<[Vector<f32, N>]>,
    gradient: Box<[Vector<f32, N>]>,
    first: Box<[Vector<f32, N>]>,
    second: Box<[Vector<f32, N>]>,
    vectors: usize,
    first_cube: usize,
}

#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct AdamScalars {
    lr: f32,
    beta1: f32,
    beta2: f32,
    factor: f32,
    epsilon: f32,
    coupled: f32,
    kept: f32,
}

/// The cubes have one tensor after the other.
#[cube(launch_unchecked, address_type = "dynamic")]
fn step_adam<N: Size>(mut tensors: Sequence<AdamBuffers<N>>, step: AdamScalars) {
    let count = tensors.len();
    step_adam_among(&mut tensors, &step, 0usize, count);
}

/// As [`step_sgd_among`].
#[cube]
fn step_adam_among<N: Size>(
    tensors: &mut Sequence<AdamBuffers<N>>,
    step: &AdamScalars,
    #[comptime] from: usize,
    #[comptime] to: usize,
) {
    if comptime!(to - from == 1) {
        let tensor = tensors.index_mut(from);
        let at = position(tensor.first_cube);
        if at < tensor.vectors {
            tensor.step(at, step);
        }
    } else {
        let middle = comptime!((from + to) / 2);
        if CUBE_POS < tensors.index(middle).first_cube {
            step_adam_among(tensors, step, from, middle);
        } else {
            step_adam_among(tensors, step, middle, to);
        }
    }
}

#[cube]
impl<N: Size> AdamBuffers<N> {
    fn step(&mut self, at: usize, step: &AdamScalars) {
        let parameter = self.parameter[at];
        let gradient = parameter * Vector::new(step.coupled) + self.gradient[at];
        let first = self.first[at] * Vector::new(step.beta1) + gradient * Vector::new(1.0f32 - step.beta1);
        let second = self.second[at] * Vector::new(step.beta2)
            + gradient * gradient * Vector::new(1.0f32 - step.beta2);
        self.first[at] = first;
        self.second[at] = second;
        let change = first * Vector::new(step.factor) / (second.sqrt() + Vector::new(step.epsilon));
        self.parameter[at] = parameter * Vector::new(step.kept) - change * Vector::new(step.lr);
    }
}
