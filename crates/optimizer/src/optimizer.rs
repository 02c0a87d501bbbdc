//! Optimizers: those of Burn, `Lion` and `Adafactor`, which Burn lacks and which keep little state, SGD and
//! Adam in place by kernels of oomph, and SGD, Adam and Lion with packed state.

use std::{collections::BTreeMap, sync::Arc};

use burn::tensor::Device;
use burn_optim::{
    AdaGradConfig, AdamConfig, AdamWConfig, AdanConfig, DynOptimizer, DynState, RmsPropConfig, SgdConfig,
    StateSink, StateSource, decay::WeightDecayConfig, momentum::MomentumConfig,
};
use oomph_config::{Moments, Optimizer as OptimizerSettings, OptimizerKind, sections::optimizer::DecayOn};
use oomph_core::Bytes;
use oomph_kernels::{AdamStep, SgdStep};
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Kernels, Named, Stages, visit_stages};

use crate::{
    adafactor::Adafactor,
    group::{self, GroupedOptimizer},
    in_place,
    lion::Lion,
    offload::change_state,
    packed::{self, Packed},
    record::{HostTensor, OptimizerRecord, RecordError, Scalar},
    state::ChangeState,
    walk::{stages_of, step_each},
};

/// An optimizer with its state by parameter name.
///
/// It updates one parameter at a time; on a GPU, SGD and Adam update all at once. Burn's `ModuleOptimizer` is not used, since
/// it keys its state by identities that change with every process.
pub struct Optimizer {
    pub(crate) rule: Rule,
    /// The rule of vectors and single numbers, if weights of matrices alone decay.
    pub(crate) without_decay: Option<Rule>,
    /// The shapes of the whole parameters, if it steps shards of them.
    pub(crate) whole: Option<Arc<Named<Vec<usize>>>>,
    pub(crate) states: Named<DynState>,
    /// For the parameters with packed state, if the settings ask for it.
    pub(crate) packed: Option<Packed>,
    pub(crate) change_state: Option<ChangeState>,
    /// Whether state lies in host memory between steps.
    pub(crate) offloads: bool,
}

/// How an optimizer updates parameters.
#[derive(Clone)]
pub(crate) enum Rule {
    /// One after the other.
    Each(Arc<dyn DynOptimizer>),
    /// All of a device at once.
    Together(Arc<dyn GroupedOptimizer>),
}

impl Rule {
    fn new(settings: &OptimizerSettings, kernels: Kernels) -> Self {
        let rule = match kernels {
            Kernels::Cpu => sgd(settings)
                .map(|rule| Arc::new(rule) as Arc<dyn DynOptimizer>)
                .or_else(|| Some(Arc::new(adam(settings, kernels)?)))
                .map(Self::Each),
            Kernels::Gpu => sgd(settings)
                .map(|rule| Arc::new(rule) as Arc<dyn GroupedOptimizer>)
                .or_else(|| Some(Arc::new(adam(settings, kernels)?)))
                .map(Self::Together),
            Kernels::Composed => None,
        };
        rule.unwrap_or_else(|| Self::Each(composed(settings).into()))
    }

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
    /// The optimizer of the settings, without state. All `kernels` give the same results; packed state needs those of oomph.
    pub fn new(settings: &OptimizerSettings, kernels: Kernels) -> Self {
        let spares = settings.weight_decay_on == DecayOn::Matrices && settings.weight_decay > 0.0;
        let without = || OptimizerSettings { weight_decay: 0.0, ..settings.clone() };
        Self {
            rule: Rule::new(settings, kernels),
            without_decay: spares.then(|| Rule::new(&without(), kernels)),
            whole: None,
            states: Named::new(),
            packed: Packed::new(settings, kernels),
            change_state: change_state(settings, kernels),
            offloads: false,
        }
    }

    /// Sets whether state lies in host memory between steps. The configuration refuses it for optimizers whose state cannot.
    #[must_use]
    pub fn offloading(self, offloads: bool) -> Self {
        Self { offloads, ..self }
    }

    /// Sets that it steps shards of parameters. `whole` has the shapes of the whole parameters: their shards have the same format of
    /// state, and decay alike.
    #[must_use]
    pub fn of_shards(self, whole: Option<Arc<Named<Vec<usize>>>>) -> Self {
        Self { packed: self.packed.map(|packed| packed.of_shards(whole.clone())), whole, ..self }
    }

    /// Moves the state of the parameters that `is_own` accepts into an optimizer of the same rule.
    pub fn split_off(&mut self, is_own: impl Fn(&str) -> bool) -> Self {
        charge(Account::Host, || {
            let (own, rest) =
                std::mem::take(&mut self.states).into_iter().partition(|(name, _)| is_own(name));
            self.states = rest;
            let packed = self.packed.as_mut().map(|packed| packed.split_off(&is_own));
            let Self { change_state, offloads, .. } = *self;
            let (rule, without_decay) = (self.rule.clone(), self.without_decay.clone());
            let whole = self.whole.clone();
            Self { rule, without_decay, whole, states: own, packed, change_state, offloads }
        })
    }

    /// Takes back the state of an optimizer that was [split off](Self::split_off).
    pub fn join(&mut self, other: Self) {
        charge(Account::Host, || {
            self.states.extend(other.states);
            if let (Some(packed), Some(other)) = (&mut self.packed, other.packed) {
                packed.join(other);
            }
        });
    }

    /// Updates every parameter that has a gradient, with learning rate `lr`.
    pub fn step(&mut self, lr: f64, model: &mut Stages, gradients: Named<AnyTensor>) {
        if self.offloads {
            self.step_by_stage(lr, model, gradients);
        } else {
            self.step_here(lr, model, gradients);
        }
    }

    /// Takes the step with state that is on the device.
    pub(crate) fn step_here(&mut self, lr: f64, model: &mut Stages, mut gradients: Named<AnyTensor>) {
        let Some(without_decay) = self.without_decay.clone() else {
            return self.step_by(&self.rule.clone(), true, lr, model, gradients);
        };
        let vectors = self.vectors(model, &mut gradients);
        self.step_by(&self.rule.clone(), true, lr, model, gradients);
        self.step_by(&without_decay, false, lr, model, vectors);
    }

    /// Takes the gradients of vectors and single numbers out of `gradients`.
    fn vectors(&self, model: &Stages, gradients: &mut Named<AnyTensor>) -> Named<AnyTensor> {
        let whole = self.whole.as_deref();
        let stages = stages_of(gradients, model);
        let mut vectors = Named::new();
        charge(Account::Host, || {
            visit_stages(model, |stage| stages[stage], &mut |info, parameter| {
                let rank = whole.and_then(|whole| whole.get(info.name)).map_or(parameter.rank(), Vec::len);
                if rank < 2
                    && let Some((name, gradient)) = gradients.remove_entry(info.name)
                {
                    vectors.insert(name, gradient);
                }
            });
        });
        vectors
    }

    /// Takes the step of parameters that all decay, or do not, by `rule` or by that of packed state.
    fn step_by(
        &mut self,
        rule: &Rule,
        decays: bool,
        lr: f64,
        model: &mut Stages,
        mut gradients: Named<AnyTensor>,
    ) {
        if let Some(packed) = &mut self.packed {
            packed.step(lr, decays, model, &mut gradients);
        }
        let states = &mut self.states;
        let rule = match rule {
            Rule::Each(rule) => rule,
            Rule::Together(rule) => {
                // A GPU's memory is not this process's: all that is allocated here is host memory.
                let step = || group::step_together(rule.as_ref(), states, lr, model, gradients);
                return charge(Account::Host, step);
            }
        };
        step_each(states, model, gradients, |parameter, gradient, state| {
            let (rank, tensor) = parameter.into_parts();
            let (_, gradient) = gradient.into_parts();
            let (tensor, state) = rule.step_dyn(rank, lr, tensor, gradient, state);
            (AnyTensor::from_parts(rank, tensor), state)
        });
    }

    /// Copies the state to the host, for a checkpoint.
    ///
    /// # Errors
    /// [`RecordError::NotFloats`] if a tensor of the state does not consist of 32-bit floats.
    pub fn record(&self) -> Result<OptimizerRecord, RecordError> {
        self.record_of(|_| true)
    }

    /// As [`record`](Self::record), of the parameters whose names `is_wanted` accepts.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn record_of(&self, is_wanted: impl Fn(&str) -> bool) -> Result<OptimizerRecord, RecordError> {
        let mut record = OptimizerRecord::default();
        for (name, state) in self.states.iter().filter(|(name, _)| is_wanted(name)) {
            let leaves = self.leaves(name, state);
            for (leaf, data) in leaves.tensors {
                record.tensors.insert(leaf.clone(), HostTensor::from_data(&leaf, data)?);
            }
            record
                .scalars
                .extend(leaves.scalars.into_iter().map(|(leaf, value)| (leaf, Scalar::from(value))));
            record.ranks.insert(name.clone(), state.rank());
        }
        if let Some(packed) = &self.packed {
            packed.record(&mut record, is_wanted)?;
        }
        Ok(record)
    }

    /// Whether the optimizer has state of earlier steps.
    pub fn has_state(&self) -> bool {
        !self.states.is_empty() || self.packed.as_ref().is_some_and(|packed| !packed.is_empty())
    }

    /// Bytes of the state of the parameters whose names `of` accepts.
    pub fn state_bytes(&self, of: impl Fn(&str) -> bool) -> Bytes {
        let bytes_of =
            |leaves: StateSink| leaves.tensors.iter().map(|(_, data)| data.bytes.len() as u64).sum::<u64>();
        let states = self.states.iter().filter(|(name, _)| of(name));
        // One parameter is copied at a time.
        let wide =
            charge(Account::Host, || states.map(|(name, state)| bytes_of(self.leaves(name, state))).sum());
        Bytes::new(wide) + self.packed.as_ref().map_or(Bytes::default(), |packed| packed.state_bytes(&of))
    }

    /// The state of a parameter. Burn gives access to state tensors only as copies on the host.
    fn leaves(&self, name: &str, state: &DynState) -> StateSink {
        let mut leaves = StateSink::default();
        self.rule.of_one().state_flatten(name, state, &mut leaves);
        leaves
    }

    /// Replaces the state with a recorded one. The state of a parameter is made on the device of the parameter in `model`. State
    /// that was recorded in another format than the settings ask for is converted.
    ///
    /// # Errors
    /// [`RecordError::OptimizerState`] if the state of a parameter is incomplete, or belongs to another optimizer.
    ///
    /// # Panics
    /// Burn panics on a record that [`check_record`](crate::check_record) refuses.
    pub fn restore(&mut self, mut record: OptimizerRecord, model: &Stages) -> Result<(), RecordError> {
        if let Some(packed) = &mut self.packed {
            packed.restore(&mut record, model, self.offloads)?;
        }
        charge(Account::Host, || packed::unpack(&mut record));
        let mut devices = BTreeMap::new();
        model.visit(&mut |info, parameter| {
            devices.insert(info.name.to_owned(), parameter.device().inner());
        });
        let scalars = record.scalars.into_iter().map(|(leaf, value)| (leaf, value.into())).collect();
        let mut source = StateSource::new(scalars);
        for (leaf, mut tensor) in record.tensors {
            if self.change_state.is_none() {
                // On the CPU the optimizer keeps the buffers that it is given, and those of the record are the host's.
                tensor.values = tensor.values.as_slice().to_vec();
            }
            source.insert_tensor(leaf, tensor.into_data());
        }
        self.states.clear();
        for (name, rank) in record.ranks {
            let state = devices.get(&name).and_then(|device| self.restored(&name, rank, &mut source, device));
            let state = state.ok_or(RecordError::OptimizerState { parameter: name.clone() })?;
            self.states.insert(name, state);
        }
        Ok(())
    }

    /// The state of a parameter from `source`, whose buffers are the host's.
    fn restored(
        &self,
        name: &str,
        rank: usize,
        source: &mut StateSource,
        device: &Device,
    ) -> Option<DynState> {
        let rule = self.rule.of_one();
        let Some(change_state) = self.change_state else {
            return rule.state_unflatten(rank, name, source, device);
        };
        let state = charge(Account::Host, || rule.state_unflatten(rank, name, source, &Device::flex()))?;
        if self.offloads {
            return Some(state);
        }
        Some(change_state(state, &mut |tensor| tensor.from_host_memory(device, false)))
    }
}

/// SGD by kernels of oomph, if the settings ask for SGD.
pub(crate) fn sgd(settings: &OptimizerSettings) -> Option<in_place::Sgd> {
    let OptimizerKind::Sgd { momentum, dampening, nesterov } = settings.kind else { return None };
    let (weight_decay, momentum) = (settings.weight_decay as f32, momentum as f32);
    Some(in_place::Sgd { step: SgdStep { lr: 0.0, weight_decay, momentum, dampening, nesterov } })
}

/// Adam or AdamW by `kernels` of oomph, if the settings ask for one that these have.
pub(crate) fn adam(settings: &OptimizerSettings, kernels: Kernels) -> Option<in_place::Adam> {
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
