//! Optimizers that update parameters and state in place, by kernels of oomph. They compute as Burn's optimizers do, and
//! record their state under the same names.

use burn::tensor::{Device, Tensor};
use burn_optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use oomph_kernels::{AdamStep, Kernels, SgdStep};

/// Stochastic gradient descent, by [`SgdStep`]. Each step sets its learning rate.
#[derive(Clone, Debug)]
pub(super) struct Sgd {
    pub(super) step: SgdStep,
    pub(super) kernels: Kernels,
}

/// The velocity of one parameter, if there is momentum.
#[derive(Clone, Debug)]
pub(super) struct SgdState<const D: usize> {
    velocity: Option<Tensor<D>>,
}

impl Optimizer for Sgd {
    type State<const D: usize> = SgdState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let velocity = state.and_then(|state| state.velocity);
        let step = SgdStep { lr, ..self.step };
        let (tensor, velocity) = step.apply(tensor, grad, velocity, self.kernels);
        (tensor, Some(SgdState { velocity }))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        SgdState { velocity: state.velocity.map(|velocity| velocity.to_device(device)) }
    }
}

// Burn's derive macro emits paths that exist only in its own crate.
impl<const D: usize> RecordState for SgdState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        if let Some(velocity) = &self.velocity {
            out.push_tensor(&join(prefix, "momentum"), "velocity", velocity.clone().into_data());
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let velocity = src.take_tensor(&join(prefix, "momentum"), "velocity");
        Some(Self { velocity: velocity.map(|velocity| Tensor::from_data(velocity, device)) })
    }
}

/// Adam or AdamW, by [`AdamStep`]. Each step sets its learning rate and time.
#[derive(Clone, Debug)]
pub(super) struct Adam {
    pub(super) step: AdamStep,
    pub(super) kernels: Kernels,
}

/// The moments of one parameter.
#[derive(Clone, Debug)]
pub(super) struct AdamState<const D: usize> {
    time: usize,
    moments: [Tensor<D>; 2],
}

impl Optimizer for Adam {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let AdamState { time, moments } = state.unwrap_or_else(|| AdamState {
            time: 0,
            moments: [(); 2].map(|()| AdamStep::first_moment(&grad, self.kernels)),
        });
        let time = time + 1;
        let (tensor, moments) = AdamStep { lr, time, ..self.step }.apply(tensor, grad, moments, self.kernels);
        (tensor, Some(AdamState { time, moments }))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        AdamState { moments: state.moments.map(|moment| moment.to_device(device)), ..state }
    }
}

/// The names of the moments in Burn's record.
const MOMENTS: [&str; 2] = ["moment_1", "moment_2"];

// Burn's derive macro emits paths that exist only in its own crate.
impl<const D: usize> RecordState for AdamState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        let prefix = join(prefix, "momentum");
        out.push_scalar(&prefix, "time", self.time.into());
        for (name, moment) in MOMENTS.into_iter().zip(&self.moments) {
            out.push_tensor(&prefix, name, moment.clone().into_data());
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let prefix = join(prefix, "momentum");
        let time = usize::try_from(src.take_scalar(&prefix, "time")?).ok()?;
        let mut moment = |name| Some(Tensor::from_data(src.take_tensor(&prefix, name)?, device));
        let [first, second] = MOMENTS;
        Some(Self { time, moments: [moment(first)?, moment(second)?] })
    }
}

/// The name of a part of the state.
fn join(prefix: &str, part: &str) -> String {
    format!("{prefix}.{part}")
}
