use std::sync::Arc;

use burn::{
    module::{Param, ParamId},
    tensor::Tensor,
};
use oomph_core::{Generator, Key, Mode};

use crate::{
    AnyTensor, Carried, KeyValueCache, ModelError, Named, Peers, Policy,
    autodiff::{self, Handover},
    trace::{LayerKind, Trace},
};

/// The context of one forward pass through stages and layers.
///
/// It has the mode, training or evaluation, and randomness that depends only on a key and the place in the model.
/// It collects the updates of running statistics: a forward never changes the model.
#[derive(Debug)]
pub struct Pass {
    mode: Mode,
    key: Key,
    policy: Policy,
    place: Vec<String>,
    updates: Vec<(ParamId, AnyTensor)>,
    /// The state that recurrent layers start from, and the state they leave; `None` if no state is carried.
    carried: Option<[Carried; 2]>,
    /// Parameters that one stage lends to all following stages.
    pub(crate) lent: Named<AnyTensor>,
    /// What a stage hands to the next one in the same graph.
    pub handover: Handover,
    peers: Option<Arc<dyn Peers>>,
    pub(crate) trace: Option<Trace>,
    /// The positions before those of the input, for prediction with a decoder; `None` if the input begins the sequence, and nothing
    /// follows.
    pub cache: Option<KeyValueCache>,
}

impl Pass {
    /// A forward of a training step. `key` names its randomness: (seed, step, micro-batch, rank).
    pub fn train(key: Key) -> Self {
        Self {
            mode: Mode::Train,
            key,
            policy: Policy::default(),
            place: Vec::new(),
            updates: Vec::new(),
            carried: None,
            lent: Named::new(),
            handover: Handover::default(),
            peers: None,
            trace: None,
            cache: None,
        }
    }

    /// A forward for evaluation or prediction: nothing random, nothing updated.
    pub fn eval() -> Self {
        Self { mode: Mode::Eval, ..Self::train(Key::new(0)) }
    }

    /// The pass with another policy.
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// The pass with the state that recurrent layers left in the batch before. Each layer starts from its state and leaves a
    /// new one for [`take_carried`](Self::take_carried). Without this, layers start from zeros.
    #[must_use]
    pub fn with_carried(self, carried: Carried) -> Self {
        Self { carried: Some([carried, Carried::default()]), ..self }
    }

    /// The pass as one of several replicas: statistics of a batch are over all of them.
    #[must_use]
    pub fn with_peers(self, peers: Option<Arc<dyn Peers>>) -> Self {
        Self { peers, ..self }
    }

    /// The replicas that run the same forward on other parts of the batch.
    pub fn peers(&self) -> Option<&Arc<dyn Peers>> {
        self.peers.as_ref()
    }

    /// A pass that repeats this forward: same randomness, same carried state. Nothing is [lent](crate::Stages::lend) to it.
    #[must_use]
    pub fn again(&self) -> Self {
        let carried = self.carried.as_ref().map(|[from, _]| [from.clone(), Carried::default()]);
        let peers = self.peers.clone();
        Self { mode: self.mode, policy: self.policy, carried, peers, ..Self::train(self.key) }
    }

    /// Sets [`Policy::recompute`] for the following stages.
    pub fn set_recompute(&mut self, recompute: bool) {
        self.policy.recompute = recompute;
    }

    /// How layers compute.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The key of the pass's randomness.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Whether this is training or evaluating.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Runs `part` under the name `name`: a stage, a layer, or a part of one that reports name.
    pub fn scope<R>(&mut self, name: &str, part: impl FnOnce(&mut Self) -> R) -> R {
        let _scope = oomph_core::scope(name);
        self.place.push(name.to_owned());
        if let Some(trace) = &mut self.trace {
            trace.enter(&self.place);
        }
        let result = part(self);
        if let Some(trace) = &mut self.trace {
            trace.leave();
        }
        self.place.pop();
        result
    }

    /// Runs `part` in evaluation mode: a frozen stage draws nothing and updates no statistics.
    pub(crate) fn frozen<R>(&mut self, part: impl FnOnce(&mut Self) -> R) -> R {
        let mode = std::mem::replace(&mut self.mode, Mode::Eval);
        let result = part(self);
        self.mode = mode;
        result
    }

    /// The place in the model that this pass is at, such as `layer1.0.conv1`.
    pub fn place(&self) -> String {
        self.place.join(".")
    }

    /// The random numbers of this place: the same in every pass with the same key.
    pub fn generator(&self) -> Generator {
        Generator::at(self.key.with_name(&self.place()))
    }

    /// Requests that `parameter` (one without gradient, such as a running mean) becomes `value` after this forward.
    pub fn update<const D: usize>(&mut self, parameter: &Param<Tensor<D>>, value: Tensor<D>) {
        self.updates.push((parameter.id, autodiff::inner(value).into()));
    }

    /// The updates that layers requested, for [`Stages::apply`](crate::Stages::apply).
    pub fn into_updates(self) -> Vec<(ParamId, AnyTensor)> {
        self.updates
    }

    /// The state `name` that the layer at this place left in the batch before, a plain tensor `[B, …]`; `None` if there is
    /// none.
    pub fn carried(&self, name: &str) -> Option<AnyTensor> {
        let [from, _] = self.carried.as_ref()?;
        from.get(&format!("{}.{name}", self.place()))
    }

    /// Leaves state `[B, …]` for the next batch, off the graph. Does nothing if the pass carries no state.
    pub fn carry(&mut self, name: &str, state: AnyTensor) {
        let name = format!("{}.{name}", self.place());
        if let Some([_, left]) = &mut self.carried {
            left.insert(name, state.inner());
        }
    }

    /// The state that layers left for the next batch; `None` if the pass carries no state.
    pub fn take_carried(&mut self) -> Option<Carried> {
        self.carried.take().map(|[_, left]| left)
    }

    /// The parameter that another stage lends under `name`: see [`Stage::lends`](crate::Stage::lends).
    ///
    /// # Errors
    /// [`ModelError::NotLent`] with this place, if no stage lends it.
    pub fn borrowed(&self, name: &str) -> Result<AnyTensor, ModelError> {
        self.lent
            .get(name)
            .cloned()
            .ok_or_else(|| ModelError::NotLent { place: self.place(), name: name.to_owned() })
    }

    /// Reports the layer at this place to the summary. Costs nothing in training.
    pub fn layer(&mut self, kind: LayerKind, input: &[usize], output: &[usize], parameters: usize) {
        if let Some(trace) = &mut self.trace {
            trace.layer(kind, input, output, parameters);
        }
    }

    /// The activation as a float tensor of rank `D` in 32 bits, whatever the precision: Burn's own layers take these.
    ///
    /// # Errors
    /// [`ModelError::Kind`] with this place, if the activation holds integers or has another rank.
    pub fn float<const D: usize>(&self, activation: AnyTensor) -> Result<Tensor<D>, ModelError> {
        self.activation(activation).map(|tensor| self.policy.widen(tensor))
    }

    /// As [`float`](Self::float), in the activation's own format: for layers that follow the [`Policy`], as ours do.
    ///
    /// # Errors
    /// As those of [`float`](Self::float).
    pub fn activation<const D: usize>(&self, activation: AnyTensor) -> Result<Tensor<D>, ModelError> {
        let found = activation.describe();
        activation.float().ok_or_else(|| ModelError::Kind {
            place: self.place(),
            expected: format!("floats of rank {D}"),
            found,
        })
    }

    /// Checks a shape that a layer depends on.
    ///
    /// # Errors
    /// [`ModelError::Shape`] with this place and both shapes, if `fits` is false.
    pub fn expect_shape(&self, fits: bool, expected: &str, found: &[usize]) -> Result<(), ModelError> {
        if fits {
            return Ok(());
        }
        Err(ModelError::Shape { place: self.place(), expected: expected.to_owned(), found: found.to_vec() })
    }
}
