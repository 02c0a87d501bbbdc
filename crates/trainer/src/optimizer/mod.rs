//! Burn's optimizers, those that it does not have, [`Lion`] and [`Adafactor`], which keep little, and the common ones
//! [in place](in_place) on the CPU.

mod adafactor;
mod in_place;
mod lion;

use burn::tensor::Device;
use burn_optim::{
    AdaGradConfig, AdamConfig, AdamWConfig, AdanConfig, DynOptimizer, DynState, RmsPropConfig, SgdConfig,
    StateSink, StateSource, decay::WeightDecayConfig, momentum::MomentumConfig,
};
use oomph_config::{Moments, Optimizer as Settings, OptimizerKind};
use oomph_core::{Bytes, scope};
use oomph_memory::{Account, charge};
use oomph_model::{AdamStep, AnyTensor, Kernels, Named, SgdStep, Stages};

use crate::state::{HostTensor, OptimizerRecord, Scalar, StateError};

use adafactor::Adafactor;
use lion::Lion;

/// One of the optimizers over the parameters of a model, with its state by parameter name.
///
/// We drive it parameter by parameter instead of through Burn's `ModuleOptimizer`, whose state is keyed by identities
/// that change with every process.
pub struct Optimizer {
    rule: Box<dyn DynOptimizer>,
    states: Named<DynState>,
}

impl std::fmt::Debug for Optimizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Optimizer").field("states", &self.states.len()).finish_non_exhaustive()
    }
}

impl Optimizer {
    /// The optimizer that the settings ask for, without state. It computes by `kernels`, and the same by any.
    pub fn new(settings: &Settings, kernels: Kernels) -> Self {
        let own = (kernels == Kernels::Own).then(|| rule_in_place(settings)).flatten();
        Self { rule: own.unwrap_or_else(|| rule(settings)), states: Named::new() }
    }

    /// Moves every parameter that has a gradient by one step with learning rate `lr`.
    pub fn step(&mut self, lr: f64, model: &mut Stages, mut gradients: Named<AnyTensor>) {
        let Self { rule, states } = self;
        model.map(&mut |info, parameter| {
            let Some(gradient) = gradients.remove(info.name) else { return parameter };
            let _scope = scope(info.name);
            let before = parameter.device().gradient_checkpointing_strategy();
            let (rank, tensor) = parameter.inner().into_parts();
            let (_, gradient) = gradient.into_parts();
            let state = states.remove(info.name);
            let (tensor, state) = rule.step_dyn(rank, lr, tensor, gradient, state);
            if let Some(state) = state {
                // The name is the program's, the state the device's.
                states.insert(charge(Account::Host, || info.name.to_owned()), state);
            }
            AnyTensor::from_parts(rank, tensor).tracked_as(true, before)
        });
    }

    /// The state on the host, for a checkpoint.
    pub fn record(&self) -> Result<OptimizerRecord, StateError> {
        let mut record = OptimizerRecord::default();
        for (name, state) in &self.states {
            let mut sink = StateSink::default();
            self.rule.state_flatten(name, state, &mut sink);
            for (leaf, data) in sink.tensors {
                record.tensors.insert(leaf.clone(), HostTensor::from_data(&leaf, data)?);
            }
            record.scalars.extend(sink.scalars.into_iter().map(|(leaf, value)| (leaf, Scalar::from(value))));
            record.ranks.insert(name.clone(), state.rank());
        }
        Ok(record)
    }

    /// Whether it keeps anything of steps before.
    pub(crate) fn has_state(&self) -> bool {
        !self.states.is_empty()
    }

    /// What the state's tensors take, each counted by its elements.
    pub(crate) fn state_bytes(&self, of: impl Fn(&str) -> bool) -> Bytes {
        let of_one = |(name, state): (&String, &DynState)| {
            // Copied to the host to be counted, one parameter at a time: there is no other way to its tensors.
            let mut sink = StateSink::default();
            self.rule.state_flatten(name, state, &mut sink);
            sink.tensors.iter().map(|(_, data)| data.bytes.len() as u64).sum::<u64>()
        };
        let states = self.states.iter().filter(|(name, _)| of(name));
        Bytes::new(charge(Account::Host, || states.map(of_one).sum()))
    }

    /// Takes over a recorded state.
    ///
    /// # Errors
    /// Where the state of a parameter is incomplete, or of another optimizer.
    pub fn restore(&mut self, record: OptimizerRecord, device: &Device) -> Result<(), StateError> {
        let scalars = record.scalars.into_iter().map(|(leaf, value)| (leaf, value.into())).collect();
        let mut source = StateSource::new(scalars);
        for (leaf, tensor) in record.tensors {
            source.insert_tensor(leaf, tensor.into_data());
        }
        self.states.clear();
        for (name, rank) in record.ranks {
            let state = self.rule.state_unflatten(rank, &name, &mut source, device);
            let state = state.ok_or(StateError::OptimizerState { parameter: name.clone() })?;
            self.states.insert(name, state);
        }
        Ok(())
    }
}

/// The rules that have a kernel of our own.
fn rule_in_place(settings: &Settings) -> Option<Box<dyn DynOptimizer>> {
    let Settings { weight_decay, .. } = *settings;
    let adam = |moments: Moments, decoupled| {
        let betas = [moments.beta1 as f32, moments.beta2 as f32];
        let epsilon = moments.epsilon as f32;
        in_place::Adam(AdamStep { lr: 0.0, betas, epsilon, weight_decay, decoupled, time: 0 })
    };
    Some(match settings.kind {
        OptimizerKind::Sgd { momentum, dampening, nesterov } => Box::new(in_place::Sgd(SgdStep {
            lr: 0.0,
            weight_decay: weight_decay as f32,
            momentum: momentum as f32,
            dampening,
            nesterov,
        })),
        OptimizerKind::Adam(moments) if !moments.amsgrad => Box::new(adam(moments, false)),
        OptimizerKind::AdamW(moments) if !moments.amsgrad => Box::new(adam(moments, true)),
        _ => return None,
    })
}

fn rule(settings: &Settings) -> Box<dyn DynOptimizer> {
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
