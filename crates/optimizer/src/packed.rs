//! Optimizers with packed state: `optimizer.state = "bf16"` and `"int8"`.

use std::{collections::BTreeMap, sync::Arc};

use burn::tensor::Device;
use oomph_config::{
    OptimizerKind,
    sections::optimizer::{Optimizer as OptimizerSettings, StateFormat},
};
use oomph_core::Bytes;
use oomph_kernels::{
    AdamStep, SgdStep,
    packed::{
        LionStep, MomentKind, PackedFormat, PackedRule, PackedStep, PackedTensors, StoredMoment,
        first_moment, loaded_moment,
    },
};
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Kernels, Named, ParameterInfo, Stages, visit_stages};

use crate::record::{HostTensor, OptimizerRecord, PackedTensor, RecordError, Scalar};
use crate::{
    group::{After, Before, GroupRule, step_together},
    state::Change,
    walk::{stages_of, step_each},
};

/// Smaller parameters keep their state in 32 bits: norms and biases, whose state is small and whose precision matters most
/// (Dettmers et al. 2022).
const LEAST: usize = 4096;

/// An optimizer with packed state, for the parameters that [have](Self::holds) it.
pub(crate) struct Packed {
    rule: Rule,
    states: Named<PackedState>,
    /// The shapes of the whole parameters, if it steps shards of them.
    whole: Option<Arc<Named<Vec<usize>>>>,
}

/// The rule, whose steps set its learning rate and time.
#[derive(Clone, Copy)]
struct Rule {
    rule: PackedRule,
    format: PackedFormat,
    kernels: Kernels,
}

/// The state of a parameter.
#[derive(Clone)]
struct PackedState {
    /// The steps that the parameter took.
    time: usize,
    shape: Vec<usize>,
    moments: Vec<AnyTensor>,
}

impl Packed {
    /// The optimizer of the settings, without state; `None` if these keep all state in 32 bits, or have none.
    pub(crate) fn new(settings: &OptimizerSettings, kernels: Kernels) -> Option<Self> {
        let format = match settings.state {
            StateFormat::Fp32 => return None,
            StateFormat::Bf16 => PackedFormat::Bf16,
            StateFormat::Int8 => PackedFormat::Int8,
        };
        let rule = match settings.kind {
            OptimizerKind::Lion { beta1, beta2 } => {
                let (betas, weight_decay) = ([beta1 as f32, beta2 as f32], settings.weight_decay);
                Some(PackedRule::Lion(LionStep { lr: 0.0, betas, weight_decay }))
            }
            _ => crate::optimizer::sgd(settings)
                .filter(|sgd| sgd.step.momentum != 0.0)
                .map(|sgd| PackedRule::Sgd(sgd.step))
                .or_else(|| Some(PackedRule::Adam(crate::optimizer::adam(settings, kernels)?.step))),
        };
        Some(Self { rule: Rule { rule: rule?, format, kernels }, states: Named::new(), whole: None })
    }

    /// An optimizer of the same rule with the state of the parameters that `is_own` accepts.
    pub(crate) fn split_off(&mut self, is_own: impl Fn(&str) -> bool) -> Self {
        let (own, rest) = std::mem::take(&mut self.states).into_iter().partition(|(name, _)| is_own(name));
        self.states = rest;
        Self { rule: self.rule, states: own, whole: self.whole.clone() }
    }

    /// Takes back what was split off.
    pub(crate) fn join(&mut self, other: Self) {
        self.states.extend(other.states);
    }

    /// Sets that it steps shards.
    pub(crate) fn of_shards(self, whole: Option<Arc<Named<Vec<usize>>>>) -> Self {
        Self { whole, ..self }
    }

    /// Whether the state of a parameter is packed. Tables of embeddings keep 8 bits out of their state, as in the paper: few of
    /// their rows have a gradient in a step, and those have large ones.
    fn holds(&self, info: &ParameterInfo<'_>, elements: usize) -> bool {
        let whole = self.whole.as_ref().and_then(|whole| whole.get(info.name));
        let elements = whole.map_or(elements, |shape| shape.iter().product());
        elements >= LEAST && (self.rule.format == PackedFormat::Bf16 || !info.is_embedding)
    }

    /// Updates the parameters whose state is packed, and takes their gradients out of `gradients`. Weights decay if `decays`.
    pub(crate) fn step(
        &mut self,
        lr: f64,
        decays: bool,
        model: &mut Stages,
        gradients: &mut Named<AnyTensor>,
    ) {
        let mut own = Named::new();
        let stages = stages_of(gradients, model);
        charge(Account::Host, || {
            visit_stages(model, |stage| stages[stage], &mut |info, parameter| {
                if self.holds(&info, parameter.elements())
                    && let Some((name, gradient)) = gradients.remove_entry(info.name)
                {
                    own.insert(name, gradient);
                }
            });
        });
        let Self { rule, states, .. } = self;
        let rule = &if decays { *rule } else { rule.without_decay() };
        if rule.kernels == Kernels::Gpu {
            // A GPU's memory is not this process's.
            return charge(Account::Host, || step_together(rule, states, lr, model, own));
        }
        step_each(states, model, own, |parameter, gradient, state| {
            let state = state.unwrap_or_else(|| rule.first_state(&gradient));
            let After { parameter, state } = rule.step_one(lr, Before { parameter, gradient, state });
            (parameter, Some(state))
        });
    }

    /// Changes the tensors of a parameter's state, if it is packed.
    pub(crate) fn change(&mut self, name: &str, change: &mut Change<'_>) {
        if let Some(state) = self.states.get_mut(name) {
            state.moments = std::mem::take(&mut state.moments).into_iter().map(change).collect();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Bytes of the state of the parameters whose names `of` accepts.
    pub(crate) fn state_bytes(&self, of: impl Fn(&str) -> bool) -> Bytes {
        let states = self.states.iter().filter(|(name, _)| of(name));
        let words = states.flat_map(|(_, state)| &state.moments).map(AnyTensor::elements);
        Bytes::new(words.map(|words| (words * size_of::<u32>()) as u64).sum())
    }

    /// Copies the state to the host.
    pub(crate) fn record(
        &self,
        record: &mut OptimizerRecord,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<(), RecordError> {
        let states = self.states.iter().filter(|(name, _)| is_wanted(name));
        for (name, PackedState { time, shape, moments }) in states {
            let elements = shape.iter().product();
            for (field, moment) in self.rule.fields().iter().zip(moments) {
                let leaf = format!("{name}.{field}");
                let data = moment.clone().into_data()?;
                // The tensor was made of words.
                let words =
                    data.try_to_vec::<u32>().map_err(|_| RecordError::NotFloats { name: leaf.clone() })?;
                let moment = StoredMoment::of_words(self.rule.format, &words, elements);
                record.packed.insert(leaf, PackedTensor { shape: shape.clone(), moment });
            }
            record.scalars.insert(time_leaf(name), Scalar::Uint(*time as u64));
            record.ranks.insert(name.clone(), shape.len());
        }
        Ok(())
    }

    /// Takes the state of its parameters out of `record`. What was kept in another format is converted. It comes to its
    /// device, or into host memory if it `offloads`, one parameter after the other.
    ///
    /// # Errors
    /// [`RecordError::OptimizerState`] if the state of a parameter is incomplete, or belongs to another optimizer.
    pub(crate) fn restore(
        &mut self,
        record: &mut OptimizerRecord,
        model: &Stages,
        offloads: bool,
    ) -> Result<(), RecordError> {
        self.states.clear();
        model.try_visit(|info, parameter| {
            if !self.holds(&info, parameter.elements()) || record.ranks.remove(info.name).is_none() {
                return Ok(());
            }
            let shape = parameter.dims();
            let state_on = |device: &Device| self.rule.state_of(record, info.name, shape, device);
            let state = match offloads {
                true => charge(Account::Host, || state_on(&Device::flex())),
                false => state_on(&parameter.device().inner()),
            };
            let state =
                state.ok_or_else(|| RecordError::OptimizerState { parameter: info.name.to_owned() })?;
            self.states.insert(info.name.to_owned(), state);
            Ok(())
        })
    }
}

impl Rule {
    fn without_decay(self) -> Self {
        let rule = match self.rule {
            PackedRule::Sgd(step) => PackedRule::Sgd(SgdStep { weight_decay: 0.0, ..step }),
            PackedRule::Adam(step) => PackedRule::Adam(AdamStep { weight_decay: 0.0, ..step }),
            PackedRule::Lion(step) => PackedRule::Lion(LionStep { weight_decay: 0.0, ..step }),
        };
        Self { rule, ..self }
    }

    /// The fields of a parameter's state that hold the moments, named as those of 32 bits.
    fn fields(&self) -> &'static [&'static str] {
        match self.rule {
            PackedRule::Sgd(_) => &["momentum.velocity"],
            PackedRule::Adam(_) => &["momentum.moment_1", SQUARE],
            PackedRule::Lion(_) => &["momentum"],
        }
    }

    /// The step number `time` of a parameter.
    fn at(&self, lr: f64, time: usize) -> PackedStep {
        let rule = match self.rule {
            PackedRule::Sgd(step) => PackedRule::Sgd(SgdStep { lr, ..step }),
            PackedRule::Adam(step) => PackedRule::Adam(AdamStep { lr, ..step }),
            PackedRule::Lion(step) => PackedRule::Lion(LionStep { lr, ..step }),
        };
        PackedStep { rule, format: self.format, time }
    }

    fn step_one(&self, lr: f64, before: Before<PackedState>) -> After<PackedState> {
        let Before { parameter, gradient, state: PackedState { time, shape, moments } } = before;
        let stepped = self.at(lr, time + 1).apply(PackedTensors { parameter, gradient, moments });
        let state = PackedState { time: time + 1, shape, moments: stepped.moments };
        After { parameter: stepped.parameter, state }
    }

    /// Takes the state of a parameter out of `record`; `None` where a part is missing.
    fn state_of(
        &self,
        record: &mut OptimizerRecord,
        name: &str,
        shape: Vec<usize>,
        device: &Device,
    ) -> Option<PackedState> {
        let mut moments = Vec::new();
        for (field, kind) in self.fields().iter().zip(self.rule.moments()) {
            let leaf = format!("{name}.{field}");
            let held = record.packed.remove(&leaf).map(|held| held.moment);
            let values = || record.tensors.remove(&leaf).map(|tensor| tensor.values);
            let moment = match held {
                Some(moment) if is_of(&moment, self.format) => moment,
                Some(moment) => StoredMoment::of_values(self.format, &moment.values(*kind), *kind),
                None => StoredMoment::of_values(self.format, &charge(Account::Host, values)?, *kind),
            };
            moments.push(loaded_moment(moment, device));
        }
        // SGD and Lion in 32 bits do not count their steps. Behind the first one, the number only chooses random bits.
        let time = match record.scalars.get(&time_leaf(name)) {
            Some(Scalar::Uint(time)) => usize::try_from(*time).ok()?,
            Some(Scalar::Int(time)) => usize::try_from(*time).ok()?,
            _ => 1,
        };
        Some(PackedState { time, shape, moments })
    }
}

impl GroupRule for Rule {
    type State = PackedState;

    fn first_state(&self, gradient: &AnyTensor) -> PackedState {
        let moments = self.rule.moments().iter().map(|_| first_moment(self.format, gradient, self.kernels));
        PackedState { time: 0, shape: charge(Account::Host, || gradient.dims()), moments: moments.collect() }
    }

    /// One operation for all parameters that took as many steps.
    fn step_group(&self, lr: f64, parameters: Vec<Before<PackedState>>) -> Vec<After<PackedState>> {
        let mut by_time: BTreeMap<usize, Vec<(usize, Vec<usize>, PackedTensors)>> = BTreeMap::new();
        for (place, Before { parameter, gradient, state }) in parameters.into_iter().enumerate() {
            let PackedState { time, shape, moments } = state;
            let tensors = PackedTensors { parameter, gradient, moments };
            by_time.entry(time + 1).or_default().push((place, shape, tensors));
        }
        let mut after = BTreeMap::new();
        for (time, group) in by_time {
            let (mut places, mut tensors) = (Vec::new(), Vec::new());
            for (place, shape, one) in group {
                places.push((place, shape));
                tensors.push(one);
            }
            let stepped = self.at(lr, time).apply_on_gpu(tensors);
            for ((place, shape), stepped) in places.into_iter().zip(stepped) {
                let state = PackedState { time, shape, moments: stepped.moments };
                after.insert(place, After { parameter: stepped.parameter, state });
            }
        }
        after.into_values().collect()
    }
}

/// Turns packed state of a record into that of 32 bits.
pub(crate) fn unpack(record: &mut OptimizerRecord) {
    for (leaf, PackedTensor { shape, moment }) in std::mem::take(&mut record.packed) {
        let kind = if leaf.ends_with(SQUARE) { MomentKind::Square } else { MomentKind::Signed };
        record.tensors.insert(leaf, HostTensor { shape, values: moment.values(kind) });
    }
}

/// The field with a mean of squares.
const SQUARE: &str = "momentum.moment_2";

/// The leaf with the number of steps, named as Adam's.
fn time_leaf(name: &str) -> String {
    format!("{name}.momentum.time")
}

fn is_of(moment: &StoredMoment, format: PackedFormat) -> bool {
    match moment {
        StoredMoment::Bf16(_) => format == PackedFormat::Bf16,
        StoredMoment::Int8 { .. } => format == PackedFormat::Int8,
    }
}
