//! Optimizer state in host memory, with `memory.offload = ["optimizer"]`.

use oomph_config::{Optimizer as OptimizerSettings, OptimizerKind};
use oomph_core::scope;
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Kernels, Named, Stages};

use crate::{
    Optimizer,
    in_place::{change_adam, change_sgd},
    lion::change_lion,
    state::{Change, ChangeState, put_away},
    walk::names_of,
};

/// How the tensors of a state are changed; `None` for the optimizers of Burn, whose tensors are out of reach.
pub(crate) fn change_state(settings: &OptimizerSettings, kernels: Kernels) -> Option<ChangeState> {
    match settings.kind {
        OptimizerKind::Lion { .. } => Some(change_lion),
        _ if kernels == Kernels::Composed => None,
        OptimizerKind::Sgd { .. } => Some(change_sgd),
        OptimizerKind::Adam(moments) | OptimizerKind::AdamW(moments) => {
            (!moments.amsgrad).then_some(change_adam)
        }
        _ => None,
    }
}

impl Optimizer {
    /// Takes the steps stage by stage. The state of a stage comes from host memory for its step, and goes back.
    ///
    /// The copies and the step are in one stream of a GPU. So nothing would be gained by fetching a state earlier: it would take
    /// memory beside that of the stage before.
    pub(crate) fn step_by_stage(&mut self, lr: f64, model: &mut Stages, mut gradients: Named<AnyTensor>) {
        let stages: Vec<Named<AnyTensor>> = charge(Account::Host, || {
            let own = |stage| {
                let names: Vec<String> = names_of(&gradients, stage).cloned().collect();
                names.iter().filter_map(|name| gradients.remove_entry(name)).collect::<Named<_>>()
            };
            model.names().map(own).filter(|own| !own.is_empty()).collect()
        });
        for own in stages {
            for (name, gradient) in &own {
                let _scope = scope(name);
                let (device, is_recorded) = (gradient.device(), gradient.is_recorded());
                self.change(name, &mut |tensor| tensor.from_host_memory(&device, is_recorded));
            }
            let names: Vec<String> = charge(Account::Host, || own.keys().cloned().collect());
            self.step_here(lr, model, own);
            names.iter().for_each(|name| self.change(name, &mut put_away));
            charge(Account::Host, || drop(names));
        }
    }

    /// Changes the tensors of the state of a parameter.
    pub(crate) fn change(&mut self, name: &str, change: &mut Change<'_>) {
        if let Some(change_state) = self.change_state
            && let Some((name, state)) = self.states.remove_entry(name)
        {
            let state = change_state(state, change);
            charge(Account::Host, || self.states.insert(name, state));
        }
        if let Some(packed) = &mut self.packed {
            packed.change(name, change);
        }
    }

    /// Bytes of state in host memory.
    pub fn offloaded_bytes(&self) -> u64 {
        let (true, Some(change_state)) = (self.offloads, self.change_state) else { return 0 };
        let mut bytes = 0;
        let mut count = |tensor: AnyTensor| {
            bytes += tensor.bytes();
            tensor
        };
        charge(Account::Host, || {
            for state in self.states.values() {
                change_state(state.clone(), &mut count);
            }
        });
        bytes + self.packed.as_ref().map_or(0, |packed| packed.state_bytes(|_| true).get())
    }
}
