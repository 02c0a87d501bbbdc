//! Optimizers: those of Burn, `Lion` and `Adafactor`, which Burn lacks and which keep little state, and SGD and
//! Adam in place by kernels of oomph.

mod adafactor;
mod check;
mod group;
mod in_place;
mod lion;

use std::sync::Arc;

use burn::tensor::Device;
use burn_optim::{
    AdaGradConfig, AdamConfig, AdamWConfig, AdanConfig, DynOptimizer, DynState, RmsPropConfig, SgdConfig,
    StateSink, StateSource, decay::WeightDecayConfig, momentum::MomentumConfig,
};
use oomph_config::{Moments, Optimizer as OptimizerSettings, OptimizerKind};
use oomph_core::{Bytes, scope};
use oomph_kernels::{AdamStep, SgdStep};
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Kernels, Named, Stages};

use crate::record::{HostTensor, OptimizerRecord, RecordError, Scalar};

pub use check::check_record;

use adafactor::Adafactor;
use group::GroupRule;
use lion::Lion;

/// An optimizer with its state by parameter name.
///
/// It updates one parameter at a time; on a GPU, SGD and Adam update all at once. Burn's `ModuleOptimizer` is not used, since
/// it keys its state by identities that change with every process.
pub struct Optimizer {
    rule: Rule,
    states: Named<DynState>,
}

/// How an optimizer updates parameters.
#[derive(Clone)]
enum Rule {
    /// One after the other.
    Each(Arc<dyn DynOptimizer>),
    /// All of a device at once.
    Together(Arc<dyn GroupRule>),
}

impl Rule {
    /// The rule for one parameter.
    fn of_one(&self) -> &dyn DynOptimizer {
        match self {
            Self::Each(rule) => rule.as_ref(),
            Self::Together(rule) => rule.as_ref(),
        }
    }
}

impl std::fmt::Debug for Optimizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Optimizer").field("states", &self.states.len()).finish_non_exhaustive()
    }
}

impl Optimizer {
    /// The optimizer of the settings, without state. All `kernels` give the same results.
    pub fn new(settings: &OptimizerSettings, kernels: Kernels) -> Self {
        let rule = match kernels {
            Kernels::Cpu => sgd(settings)
                .map(|rule| Arc::new(rule) as Arc<dyn DynOptimizer>)
                .or_else(|| Some(Arc::new(adam(settings, kernels)?)))
                .map(Rule::Each),
            Kernels::Gpu => sgd(settings)
                .map(|rule| Arc::new(rule) as Arc<dyn GroupRule>)
                .or_else(|| Some(Arc::new(adam(settings, kernels)?)))
                .map(Rule::Together),
            Kernels::Composed => None,
        };
        Self { rule: rule.unwrap_or_else(|| Rule::Each(composed(settings).into())), states: Named::new() }
    }

    /// Moves the state of the parameters that `is_own` accepts into an optimizer of the same rule.
    pub(crate) fn split_off(&mut self, is_own: impl Fn(&str) -> bool) -> Self {
        charge(Account::Host, || {
            let (own, rest) =
                std::mem::take(&mut self.states).into_iter().partition(|(name, _)| is_own(name));
            self.states = rest;
            Self { rule: self.rule.clone(), states: own }
        })
    }

    /// Takes back the state of an optimizer that was [split off](Self::split_off).
    pub(crate) fn join(&mut self, other: Self) {
        charge(Account::Host, || self.states.extend(other.states));
    }

    /// Updates every parameter that has a gradient, with learning rate `lr`.
    pub fn step(&mut self, lr: f64, model: &mut Stages, mut gradients: Named<AnyTensor>) {
        let Self { rule, states } = self;
        let rule = match rule {
            Rule::Each(rule) => rule,
            Rule::Together(rule) => {
                // A GPU's memory is not this process's: all that is allocated here is host memory.
                let step = || group::step_together(rule.as_ref(), states, lr, model, gradients);
                return charge(Account::Host, step);
            }
        };
        model.map(&mut |info, parameter| {
            let Some(gradient) = gradients.remove(info.name) else { return parameter };
            let _scope = scope(info.name);
            let before = parameter.device().gradient_checkpointing_strategy();
            let (rank, tensor) = parameter.inner().into_parts();
            let (_, gradient) = gradient.into_parts();
            let state = states.remove(info.name);
            let (tensor, state) = rule.step_dyn(rank, lr, tensor, gradient, state);
            if let Some(state) = state {
                // The name is host memory; the state is on the device.
                states.insert(charge(Account::Host, || info.name.to_owned()), state);
            }
            AnyTensor::from_parts(rank, tensor).tracked_as(true, before)
        });
    }

    /// Copies the state to the host, for a checkpoint.
    ///
    /// # Errors
    /// [`RecordError::NotFloats`] if a tensor of the state does not consist of 32-bit floats.
    pub fn record(&self) -> Result<OptimizerRecord, RecordError> {
        let mut record = OptimizerRecord::default();
        for (name, state) in &self.states {
            let leaves = self.leaves(name, state);
            for (leaf, data) in leaves.tensors {
                record.tensors.insert(leaf.clone(), HostTensor::from_data(&leaf, data)?);
            }
            record
                .scalars
                .extend(leaves.scalars.into_iter().map(|(leaf, value)| (leaf, Scalar::from(value))));
            record.ranks.insert(name.clone(), state.rank());
        }
        Ok(record)
    }

    /// Whether the optimizer has state of earlier steps.
    pub fn has_state(&self) -> bool {
        !self.states.is_empty()
    }

    /// Bytes of the state of the parameters whose names `of` accepts.
    pub fn state_bytes(&self, of: impl Fn(&str) -> bool) -> Bytes {
        let bytes_of =
            |leaves: StateSink| leaves.tensors.iter().map(|(_, data)| data.bytes.len() as u64).sum::<u64>();
        let states = self.states.iter().filter(|(name, _)| of(name));
        // One parameter is copied at a time.
        Bytes::new(charge(Account::Host, || {
            states.map(|(name, state)| bytes_of(self.leaves(name, state))).sum()
        }))
    }

    /// The state of a parameter. Burn gives access to state tensors only as copies on the host.
    fn leaves(&self, name: &str, state: &DynState) -> StateSink {
        let mut leaves = StateSink::default();
        self.rule.of_one().state_flatten(name, state, &mut leaves);
        leaves
    }

    /// Replaces the state with a recorded one. The state of a parameter is made on the device that `device_of` gives for its
    /// name, which is the parameter's own.
    ///
    /// # Errors
    /// [`RecordError::OptimizerState`] if the state of a parameter is incomplete, or belongs to another optimizer.
    ///
    /// # Panics
    /// Burn panics on a record that [`check_record`] refuses.
    pub fn restore(
        &mut self,
        record: OptimizerRecord,
        device_of: impl Fn(&str) -> Device,
    ) -> Result<(), RecordError> {
        let scalars = record.scalars.into_iter().map(|(leaf, value)| (leaf, value.into())).collect();
        let mut source = StateSource::new(scalars);
        for (leaf, tensor) in record.tensors {
            source.insert_tensor(leaf, tensor.into_data());
        }
        self.states.clear();
        for (name, rank) in record.ranks {
            let state = self.rule.of_one().state_unflatten(rank, &name, &mut source, &device_of(&name));
            let state = state.ok_or(RecordError::OptimizerState { parameter: name.clone() })?;
            self.states.insert(name, state);
        }
        Ok(())
    }
}

/// SGD by kernels of oomph, if the settings ask for SGD.
fn sgd(settings: &OptimizerSettings) -> Option<in_place::Sgd> {
    let OptimizerKind::Sgd { momentum, dampening, nesterov } = settings.kind else { return None };
    let (weight_decay, momentum) = (settings.weight_decay as f32, momentum as f32);
    Some(in_place::Sgd { step: SgdStep { lr: 0.0, weight_decay, momentum, dampening, nesterov } })
}

/// Adam or AdamW by `kernels` of oomph, if the settings ask for one that these have.
fn adam(settings: &OptimizerSettings, kernels: Kernels) -> Option<in_place::Adam> {
    let (moments, decoupled) = match settings.kind {
        OptimizerKind::Adam(moments) => (moments, false),
        OptimizerKind::AdamW(moments) => (moments, true),
        _ => return None,
    };
    let betas = [moments.beta1 as f32, moments.beta2 as f32];
    let (epsilon, weight_decay) = (moments.epsilon as f32, settings.weight_decay);
    let step = AdamStep { lr: 0.0, betas, epsilon, weight_decay, decoupled, time: 0 };
    (!moments.amsgrad).then_some(in_place::Adam { step, kernels })
}

/// The optimizer composed from Burn's operations.
fn composed(settings: &OptimizerSettings) -> Box<dyn DynOptimizer> {
    let decay =
        (settings.weight_decay > 0.0).then_some(WeightDecayConfig { penalty: settings.weight_decay as f32 });
    match settings.kind {
        OptimizerKind::Sgd { momentum, dampening, nesterov } => {
            let momentum = (momentum > 0.0).then(|| {
                MomentumConfig::new()
                    .with_momentum(momentum)
                    .with_dampening(dampening)
                    .with_nesterov(nesterov)
            });
            Box::new(SgdConfig::new().with_weight_decay(decay).with_momentum(momentum).build())
        }
        OptimizerKind::Adam(Moments { beta1, beta2, epsilon, amsgrad }) => Box::new(
            AdamConfig::new()
                .with_beta_1(beta1 as f32)
                .with_beta_2(beta2 as f32)
                .with_epsilon(epsilon as f32)
                .with_amsgrad(amsgrad)
                .with_weight_decay(decay)
                .build(),
        ),
        OptimizerKind::AdamW(Moments { beta1, beta2, epsilon, amsgrad }) => Box::new(
            AdamWConfig::new()
                .with_beta_1(beta1 as f32)
                .with_beta_2(beta2 as f32)
                .with_epsilon(epsilon as f32)
                .with_amsgrad(amsgrad)
                .with_weight_decay(settings.weight_decay as f32)
                .build(),
        ),
        OptimizerKind::RmsProp { alpha, epsilon, momentum, centered } => Box::new(
            RmsPropConfig::new()
                .with_alpha(alpha as f32)
                .with_epsilon(epsilon as f32)
                .with_momentum(momentum as f32)
                .with_centered(centered)
                .with_weight_decay(decay)
                .build(),
        ),
        OptimizerKind::AdaGrad { lr_decay, epsilon } => Box::new(
            AdaGradConfig::new()
                .with_lr_decay(lr_decay)
                .with_epsilon(epsilon as f32)
                .with_weight_decay(decay)
                .build(),
        ),
        OptimizerKind::Adan { beta1, beta2, beta3, epsilon } => Box::new(
            AdanConfig::new()
                .with_beta_1(beta1 as f32)
                .with_beta_2(beta2 as f32)
                .with_beta_3(beta3 as f32)
                .with_epsilon(epsilon as f32)
                .with_weight_decay(settings.weight_decay as f32)
                .build(),
        ),
        OptimizerKind::Lion { beta1, beta2 } => {
            Box::new(Lion { beta1, beta2, weight_decay: settings.weight_decay })
        }
        OptimizerKind::Adafactor { beta2_decay, epsilon1, epsilon2, d } => {
            let weight_decay = settings.weight_decay;
            Box::new(Adafactor { beta2_decay, epsilon1, epsilon2, d, weight_decay })
        }
    }
}
