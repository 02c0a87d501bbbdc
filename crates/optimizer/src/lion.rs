use burn::tensor::{Device, Tensor};
use burn_optim::{DynState, LearningRate, Optimizer, RecordState, StateSink, StateSource};
use oomph_kernels::ranked;
use oomph_model::AnyTensor;

use crate::state::{Change, data};

/// Lion (Chen et al. 2023, <https://arxiv.org/abs/2302.06675>, algorithm 2). Every step has the same size, in the
/// direction of the sign of a momentum. It keeps one value per parameter.
///
/// ```text
/// u = sign(β₁ m + (1 − β₁) g)
/// p = p (1 − lr λ) − lr u
/// m = β₂ m + (1 − β₂) g
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Lion {
    /// β₁: the weight of the momentum in the direction.
    pub(crate) beta1: f64,
    /// β₂: the decay of the momentum.
    pub(crate) beta2: f64,
    /// λ, decoupled weight decay.
    pub(crate) weight_decay: f64,
}

/// The momentum of one parameter.
#[derive(Clone, Debug)]
pub(crate) struct LionState {
    momentum: AnyTensor,
}

/// Changes the tensor of a state.
pub(crate) fn change_lion(state: DynState, change: &mut Change<'_>) -> DynState {
    let rank = state.rank();
    let momentum = change(state.downcast::<LionState>().momentum);
    DynState::create(LionState { momentum }, rank)
}

impl Optimizer for Lion {
    type State<const D: usize> = LionState;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<LionState>,
    ) -> (Tensor<D>, Option<LionState>) {
        let Self { beta1, beta2, weight_decay } = *self;
        let momentum = state.map(|state| ranked::<D>(state.momentum));
        // Without momentum the sign of the sum is the sign of the gradient.
        let direction = match momentum.clone() {
            Some(momentum) => momentum.mul_scalar(beta1) + grad.clone().mul_scalar(1.0 - beta1),
            None => grad.clone(),
        };
        let update = direction.sign().mul_scalar(lr);
        let tensor = if weight_decay > 0.0 { tensor.mul_scalar(1.0 - lr * weight_decay) } else { tensor };
        let tensor = tensor - update;
        let newest = grad.mul_scalar(1.0 - beta2);
        let momentum = match momentum {
            Some(momentum) => momentum.mul_scalar(beta2) + newest,
            None => newest,
        };
        (tensor, Some(LionState { momentum: momentum.into() }))
    }

    fn to_device<const D: usize>(state: LionState, device: &Device) -> LionState {
        LionState { momentum: state.momentum.moved(device) }
    }
}

// Burn's derive macro emits paths that exist only in its own crate.
impl RecordState for LionState {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_tensor(prefix, "momentum", data(&self.momentum));
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        Some(Self { momentum: AnyTensor::from_data(src.take_tensor(prefix, "momentum")?, device) })
    }
}
