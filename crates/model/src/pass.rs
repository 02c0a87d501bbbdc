use std::sync::Arc;

use burn::{
    module::{Param, ParamId},
    tensor::{Int, Tensor},
};
use oomph_core::{Generator, Key, Mode};

use crate::{
    AnyTensor, Carried, ModelError, Named, Peers, Policy, autodiff,
    trace::{LayerKind, Trace},
};

/// What one forward pass carries along through stages and layers.
///
/// It says whether this is training, gives randomness that depends on nothing but a key and the place in the model,
/// and takes what a layer wants to change in itself (running statistics): a forward never changes the model.
#[derive(Debug)]
pub struct Pass {
    mode: Mode,
    key: Key,
    policy: Policy,
    place: Vec<String>,
    updates: Vec<(ParamId, AnyTensor)>,
    /// What recurrent layers start from, and what they leave: `None` where no state is carried.
    carried: Option<[Carried; 2]>,
    /// Parameters that one stage lends to others.
    lent: Named<AnyTensor>,
    peers: Option<Arc<dyn Peers>>,
    pub(crate) trace: Option<Trace>,
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
            peers: None,
            trace: None,
        }
    }

    /// A forward for evaluation or prediction: nothing random, nothing updated.
    pub fn eval() -> Self {
        Self { mode: Mode::Eval, ..Self::train(Key::new(0)) }
    }

    /// The same under another policy.
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// The same, with the state that recurrent layers left in the batch before: each goes on from it, and leaves its own
    /// for [`take_carried`](Self::take_carried). Without this, each starts from zeros.
    #[must_use]
    pub fn with_carried(self, carried: Carried) -> Self {
        Self { carried: Some([carried, Carried::default()]), ..self }
    }

    /// The same, one of several at the same time: statistics of a batch are taken over all of them.
    #[must_use]
    pub fn with_peers(self, peers: Option<Arc<dyn Peers>>) -> Self {
        Self { peers, ..self }
    }

    /// Those who run the same forward at the same time on other parts of the batch.
    pub fn peers(&self) -> Option<&Arc<dyn Peers>> {
        self.peers.as_ref()
    }

    /// A pass for the same forward once more, which draws, starts from and borrows what this one did.
    #[must_use]
    pub fn again(&self) -> Self {
        let carried = self.carried.as_ref().map(|[from, _]| [from.clone(), Carried::default()]);
        Self {
            mode: self.mode,
            key: self.key,
            policy: self.policy,
            place: Vec::new(),
            updates: Vec::new(),
            carried,
            lent: self.lent.clone(),
            peers: self.peers.clone(),
            trace: None,
        }
    }

    /// Asks the stages that follow to keep less by themselves: see [`Policy::recompute`].
    pub fn set_recompute(&mut self, recompute: bool) {
        self.policy.recompute = recompute;
    }

    /// How layers are to compute.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The key of its randomness.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Whether this is training or evaluating.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Runs `part` under the name `name`: a stage, a layer, or a part of one that reports shall name.
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

    /// Runs `part` as in evaluation, whatever this is: what is frozen draws nothing and measures nothing.
    pub(crate) fn frozen<R>(&mut self, part: impl FnOnce(&mut Self) -> R) -> R {
        let mode = std::mem::replace(&mut self.mode, Mode::Eval);
        let result = part(self);
        self.mode = mode;
        result
    }

    /// Where in the model this pass is, such as `layer1.0.conv1`.
    pub fn place(&self) -> String {
        self.place.join(".")
    }

    /// The random numbers of this place in this pass: the same each time the place is run with the same key.
    pub fn generator(&self) -> Generator {
        Generator::at(self.key.with_name(&self.place()))
    }

    /// Asks for `parameter` (one without gradient, such as a running mean) to become `value` after this forward.
    pub fn update<const D: usize>(&mut self, parameter: &Param<Tensor<D>>, value: Tensor<D>) {
        self.updates.push((parameter.id, autodiff::inner(value).into()));
    }

    /// What the layers asked to change, for [`Stages::apply`](crate::Stages::apply).
    pub fn into_updates(self) -> Vec<(ParamId, AnyTensor)> {
        self.updates
    }

    /// The state called `name` that the layer at this place left in the batch before, `[B, …]` off the graph; `None`
    /// where it starts from nothing.
    pub fn carried(&self, name: &str) -> Option<AnyTensor> {
        let [from, _] = self.carried.as_ref()?;
        from.get(&format!("{}.{name}", self.place()))
    }

    /// Leaves state `[B, …]` for the batch that follows, cut from the graph. Does nothing where none is carried.
    pub fn carry(&mut self, name: &str, state: AnyTensor) {
        let name = format!("{}.{name}", self.place());
        if let Some([_, left]) = &mut self.carried {
            left.insert(name, state.inner());
        }
    }

    /// The state that layers left for the next batch; `None` where none is carried.
    pub fn take_carried(&mut self) -> Option<Carried> {
        self.carried.take().map(|[_, left]| left)
    }

    /// Lends parameters to all stages that follow: [`Stages::forward`](crate::Stages::forward) does it for its own.
    pub fn lend(&mut self, parameters: Named<AnyTensor>) {
        self.lent.extend(parameters);
    }

    /// The parameter that another stage lends under `name`: see [`Stage::lends`](crate::Stage::lends).
    ///
    /// # Errors
    /// [`ModelError::NotLent`], naming this place, where no stage does.
    pub fn borrowed(&self, name: &str) -> Result<AnyTensor, ModelError> {
        self.lent
            .get(name)
            .cloned()
            .ok_or_else(|| ModelError::NotLent { place: self.place(), name: name.to_owned() })
    }

    /// The token indices `[B, T]` that an embedding takes.
    ///
    /// # Errors
    /// [`ModelError::Kind`], naming this place, where it holds floats or has another rank.
    pub fn tokens(&self, activation: AnyTensor) -> Result<Tensor<2, Int>, ModelError> {
        let found = activation.describe();
        activation.int().ok_or_else(|| ModelError::Kind {
            place: self.place(),
            expected: "integers of rank 2".to_owned(),
            found,
        })
    }

    /// Tells the summary what the layer at this place is. Costs nothing in training.
    pub fn layer(&mut self, kind: LayerKind, input: &[usize], output: &[usize], parameters: usize) {
        if let Some(trace) = &mut self.trace {
            trace.layer(kind, input, output, parameters);
        }
    }

    /// The float tensor of rank `D` in `activation`, in 32 bits whatever the precision is: what Burn's own layers take.
    ///
    /// # Errors
    /// [`ModelError::Kind`], naming this place, where it holds integers or has another rank.
    pub fn float<const D: usize>(&self, activation: AnyTensor) -> Result<Tensor<D>, ModelError> {
        self.activation(activation).map(|tensor| self.policy.widen(tensor))
    }

    /// As [`float`](Self::float), in whatever format it has: for layers that mind the [`Policy`], as ours do.
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
    /// [`ModelError::Shape`], naming this place and both shapes, where `fits` is false.
    pub fn expect_shape(&self, fits: bool, expected: &str, found: &[usize]) -> Result<(), ModelError> {
        if fits {
            return Ok(());
        }
        Err(ModelError::Shape { place: self.place(), expected: expected.to_owned(), found: found.to_vec() })
    }
}
