use burn::tensor::{Device, Tensor};
use burn_optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use oomph_kernels::SgdStep;

use super::join;

/// Stochastic gradient descent, by [`SgdStep`]. Each step sets its learning rate.
#[derive(Clone, Debug)]
pub(in crate::optimizer) struct Sgd(pub(in crate::optimizer) SgdStep);

/// The velocity of one parameter, if there is momentum.
#[derive(Clone, Debug)]
pub(in crate::optimizer) struct SgdState<const D: usize> {
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
        let step = SgdStep { lr, ..self.0 };
        let (tensor, velocity) = step.apply(tensor, grad, velocity);
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
