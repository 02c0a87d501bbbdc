//! Optimizers that update parameters and state in place, by kernels of oomph. They compute as Burn's optimizers do, and
//! record their state under the same names.

use std::collections::BTreeMap;

use burn::tensor::{Device, kind::BridgeTensor};
use burn_optim::{DynOptimizer, DynState, LearningRate, StateSink, StateSource};
use oomph_kernels::{AdamStep, AdamTensors, Kernels, SgdStep, SgdTensors};
use oomph_model::AnyTensor;

use crate::{
    group::{After, Before, GroupRule},
    state::{Change, data},
};

/// Stochastic gradient descent, by [`SgdStep`]. Each step sets its learning rate.
#[derive(Clone, Debug)]
pub(crate) struct Sgd {
    pub(crate) step: SgdStep,
}

/// The velocity of one parameter, if there is momentum.
#[derive(Clone, Debug)]
struct SgdState {
    velocity: Option<AnyTensor>,
}

impl DynOptimizer for Sgd {
    fn step_dyn(
        &self,
        rank: usize,
        lr: LearningRate,
        tensor: BridgeTensor,
        grad: BridgeTensor,
        state: Option<DynState>,
    ) -> (BridgeTensor, Option<DynState>) {
        let [parameter, gradient] = [tensor, grad].map(|tensor| AnyTensor::from_parts(rank, tensor));
        let velocity = state.and_then(|state| state.downcast::<SgdState>().velocity);
        let stepped = SgdStep { lr, ..self.step }.apply(SgdTensors { parameter, gradient, velocity });
        let state = DynState::create(SgdState { velocity: stepped.velocity }, rank);
        (stepped.parameter.into_parts().1, Some(state))
    }

    fn to_device_dyn(&self, state: DynState, device: &Device) -> DynState {
        change_sgd(state, &mut |velocity| velocity.moved(device))
    }

    fn state_flatten(&self, prefix: &str, state: &DynState, out: &mut StateSink) {
        if let Some(velocity) = &state.downcast_ref::<SgdState>().velocity {
            out.push_tensor(&join(prefix, "momentum"), "velocity", data(velocity));
        }
    }

    fn state_unflatten(
        &self,
        rank: usize,
        prefix: &str,
        src: &mut StateSource,
        device: &Device,
    ) -> Option<DynState> {
        let velocity = src.take_tensor(&join(prefix, "momentum"), "velocity");
        let velocity = velocity.map(|velocity| AnyTensor::from_data(velocity, device));
        Some(DynState::create(SgdState { velocity }, rank))
    }
}

impl GroupRule for Sgd {
    type State = DynState;

    fn first_state(&self, gradient: &AnyTensor) -> DynState {
        DynState::create(SgdState { velocity: None }, gradient.rank())
    }

    fn step_group(&self, lr: f64, parameters: Vec<Before<DynState>>) -> Vec<After<DynState>> {
        let tensors = parameters.into_iter().map(|Before { parameter, gradient, state }| SgdTensors {
            parameter,
            gradient,
            velocity: state.downcast::<SgdState>().velocity,
        });
        let stepped = SgdStep { lr, ..self.step }.apply_on_gpu(tensors.collect());
        let after = stepped.into_iter().map(|stepped| {
            let state = DynState::create(SgdState { velocity: stepped.velocity }, stepped.parameter.rank());
            After { parameter: stepped.parameter, state }
        });
        after.collect()
    }
}

/// Adam or AdamW, by [`AdamStep`]. Each step sets its learning rate and time.
#[derive(Clone, Debug)]
pub(crate) struct Adam {
    pub(crate) step: AdamStep,
    pub(crate) kernels: Kernels,
}

/// The moments of one parameter.
#[derive(Clone, Debug)]
struct AdamState {
    /// The steps that the parameter took.
    time: usize,
    moments: [AnyTensor; 2],
}

impl Adam {
    fn first(&self, gradient: &AnyTensor) -> AdamState {
        let moments = [(); 2].map(|()| AdamStep::first_moment(gradient, self.kernels));
        AdamState { time: 0, moments }
    }

    /// The step number `time` of a parameter.
    fn at(&self, lr: f64, time: usize) -> AdamStep {
        AdamStep { lr, time, ..self.step }
    }
}

impl DynOptimizer for Adam {
    fn step_dyn(
        &self,
        rank: usize,
        lr: LearningRate,
        tensor: BridgeTensor,
        grad: BridgeTensor,
        state: Option<DynState>,
    ) -> (BridgeTensor, Option<DynState>) {
        let [parameter, gradient] = [tensor, grad].map(|tensor| AnyTensor::from_parts(rank, tensor));
        let state = state.map(DynState::downcast::<AdamState>);
        let AdamState { time, moments } = state.unwrap_or_else(|| self.first(&gradient));
        let time = time + 1;
        let stepped = self.at(lr, time).apply(AdamTensors { parameter, gradient, moments });
        let state = DynState::create(AdamState { time, moments: stepped.moments }, rank);
        (stepped.parameter.into_parts().1, Some(state))
    }

    fn to_device_dyn(&self, state: DynState, device: &Device) -> DynState {
        change_adam(state, &mut |moment| moment.moved(device))
    }

    fn state_flatten(&self, prefix: &str, state: &DynState, out: &mut StateSink) {
        let AdamState { time, moments } = state.downcast_ref();
        let prefix = join(prefix, "momentum");
        out.push_scalar(&prefix, "time", (*time).into());
        for (name, moment) in MOMENTS.into_iter().zip(moments) {
            out.push_tensor(&prefix, name, data(moment));
        }
    }

    fn state_unflatten(
        &self,
        rank: usize,
        prefix: &str,
        src: &mut StateSource,
        device: &Device,
    ) -> Option<DynState> {
        let prefix = join(prefix, "momentum");
        let time = usize::try_from(src.take_scalar(&prefix, "time")?).ok()?;
        let mut moment = |name| Some(AnyTensor::from_data(src.take_tensor(&prefix, name)?, device));
        let [first, second] = MOMENTS;
        let moments = [moment(first)?, moment(second)?];
        Some(DynState::create(AdamState { time, moments }, rank))
    }
}

impl GroupRule for Adam {
    type State = DynState;

    fn first_state(&self, gradient: &AnyTensor) -> DynState {
        DynState::create(self.first(gradient), gradient.rank())
    }

    /// One operation for all parameters that took as many steps: these have the same corrections.
    fn step_group(&self, lr: f64, parameters: Vec<Before<DynState>>) -> Vec<After<DynState>> {
        let count = parameters.len();
        let mut by_time: BTreeMap<usize, Vec<(usize, AdamTensors)>> = BTreeMap::new();
        for (place, Before { parameter, gradient, state }) in parameters.into_iter().enumerate() {
            let AdamState { time, moments } = state.downcast();
            let tensors = AdamTensors { parameter, gradient, moments };
            by_time.entry(time + 1).or_default().push((place, tensors));
        }
        let mut after = Vec::with_capacity(count);
        for (time, group) in by_time {
            let (places, tensors): (Vec<_>, Vec<_>) = group.into_iter().unzip();
            let stepped = self.at(lr, time).apply_on_gpu(tensors);
            after.extend(places.into_iter().zip(stepped).map(|(place, stepped)| {
                let state = AdamState { time, moments: stepped.moments };
                let state = DynState::create(state, stepped.parameter.rank());
                (place, After { parameter: stepped.parameter, state })
            }));
        }
        after.sort_by_key(|(place, _)| *place);
        after.into_iter().map(|(_, after)| after).collect()
    }
}

/// Changes the tensors of a state of [`Sgd`].
pub(crate) fn change_sgd(state: DynState, change: &mut Change<'_>) -> DynState {
    let rank = state.rank();
    let velocity = state.downcast::<SgdState>().velocity.map(change);
    DynState::create(SgdState { velocity }, rank)
}

/// Changes the tensors of a state of [`Adam`].
pub(crate) fn change_adam(state: DynState, change: &mut Change<'_>) -> DynState {
    let rank = state.rank();
    let AdamState { time, moments } = state.downcast();
    DynState::create(AdamState { time, moments: moments.map(change) }, rank)
}

/// The names of the moments in Burn's record.
pub(crate) const MOMENTS: [&str; 2] = ["moment_1", "moment_2"];

/// The name of a part of the state.
fn join(prefix: &str, part: &str) -> String {
    format!("{prefix}.{part}")
}
