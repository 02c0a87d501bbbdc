use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use burn::module::ParamId;
use oomph_core::is_within;
use oomph_onnx::{Graph, Value};

use crate::{
    AnyTensor, Carried, ModelError, ParameterInfo, Pass, Policy, Stage,
    stage::{AnyStage, Slot},
};

/// A model: a chain of stages, run in order. Cloning shares the parameters' storage.
///
/// ```
/// # use burn::{module::Module, tensor::{Device, Tensor}};
/// # use oomph_model::{AnyTensor, ModelError, Pass, Stage, Stages};
/// #[derive(Module, Debug)]
/// struct Double {
///     #[module(skip)]
///     factor: f32,
/// }
///
/// impl Stage for Double {
///     fn forward(&self, input: AnyTensor, _pass: &mut Pass) -> Result<AnyTensor, ModelError> {
///         Ok(input.scale(self.factor))
///     }
/// }
///
/// let model = Stages::new().with("first", Double { factor: 2.0 }).with("second", Double { factor: 3.0 });
/// let x = Tensor::<1>::from_floats([1.0], &Device::flex());
/// let y = model.forward(x.into(), &mut Pass::eval())?;
/// assert_eq!(y.to_host()?, [6.0]);
/// # Ok::<(), ModelError>(())
/// ```
#[derive(Clone, Default)]
pub struct Stages {
    chain: Vec<Link>,
}

#[derive(Clone)]
struct Link {
    name: String,
    stage: Box<dyn AnyStage>,
    /// The frozen parameters, which would be trained.
    frozen: Option<Arc<HashSet<ParamId>>>,
    /// Whether all of the stage is frozen.
    is_frozen: bool,
}

impl Link {
    /// Freezes all parameters of the stage, which is the one at `index`.
    fn freeze_parameters(&mut self, index: usize) {
        let mut frozen = HashSet::new();
        self.stage.map(index, &self.name, &mut |info, tensor| {
            if !info.trainable {
                return tensor;
            }
            frozen.insert(info.id);
            tensor.clone().inner().tracked_like(&tensor, false)
        });
        self.frozen = Some(Arc::new(frozen));
    }
}

impl Stages {
    /// An empty chain, to be filled by [`with`](Self::with).
    pub fn new() -> Self {
        Self::default()
    }

    /// The chain with one more stage at its end.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, stage: impl Stage) -> Self {
        let stage = Box::new(Slot(Some(stage)));
        self.chain.push(Link { name: name.into(), stage, frozen: None, is_frozen: false });
        self
    }

    /// Removes the stages from `at` on, and gives them.
    ///
    /// # Panics
    /// Panics if there are fewer stages.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        Self { chain: self.chain.split_off(at) }
    }

    /// The chain followed by the stages of another.
    #[must_use]
    pub fn followed_by(mut self, rest: Self) -> Self {
        self.chain.extend(rest.chain);
        self
    }

    /// A model of one stage, for a model that cannot be cut.
    pub fn single(stage: impl Stage) -> Self {
        Self::new().with("model", stage)
    }

    /// Checks that there is a stage and that all names differ.
    ///
    /// # Errors
    /// [`ModelError::Empty`] and [`ModelError::DuplicateStage`].
    pub fn check(&self) -> Result<(), ModelError> {
        if self.chain.is_empty() {
            return Err(ModelError::Empty);
        }
        let mut seen = HashSet::new();
        match self.names().find(|name| !seen.insert(*name)) {
            Some(name) => Err(ModelError::DuplicateStage { name: name.to_owned() }),
            None => Ok(()),
        }
    }

    /// The number of stages.
    pub fn len(&self) -> usize {
        self.chain.len()
    }

    /// Whether there is no stage.
    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    /// The names of the stages, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.chain.iter().map(|link| link.name.as_str())
    }

    /// The type of each stage, in order, without its path.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.chain.iter().map(|link| link.stage.kind())
    }

    /// Runs all stages in order.
    ///
    /// # Errors
    /// The first stage's error.
    pub fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        self.lend(pass);
        (0..self.len()).try_fold(input, |activation, stage| {
            pass.handover.set_followed(stage + 1 < self.len());
            self.forward_stage(stage, activation, pass)
        })
    }

    /// Lends `pass` the parameters that stages share. Call it before a stage runs alone.
    pub fn lend(&self, pass: &mut Pass) {
        for link in &self.chain {
            pass.lent.extend(link.stage.lends());
        }
    }

    /// The stages that compute with parameters of another: pairs of the borrower's and the lender's index.
    pub fn borrowers(&self) -> Vec<(usize, usize)> {
        let lenders: Vec<_> = self.chain.iter().map(|link| link.stage.lends()).collect();
        let lender = |name: &String| lenders.iter().position(|lends| lends.contains_key(name));
        let pairs = |(index, link): (usize, &Link)| {
            let borrowed = link.stage.borrows();
            borrowed.iter().filter_map(lender).map(|lender| (index, lender)).collect::<Vec<_>>()
        };
        self.chain.iter().enumerate().flat_map(pairs).collect()
    }

    /// Runs the stage at `index` alone.
    ///
    /// # Errors
    /// The stage's error.
    ///
    /// # Panics
    /// Panics if there is no such stage.
    pub fn forward_stage(
        &self,
        index: usize,
        input: AnyTensor,
        pass: &mut Pass,
    ) -> Result<AnyTensor, ModelError> {
        let Link { name, stage, is_frozen, .. } = &self.chain[index];
        pass.scope(name, |pass| match is_frozen {
            true => pass.frozen(|pass| stage.forward(input, pass)),
            false => stage.forward(input, pass),
        })
    }

    /// Freezes the stages or groups in `names`: the group `layer1` is `layer1.0` and `layer1.1`. Their parameters have no
    /// gradient from then on, and they always run as in evaluation: running statistics stay, and dropout drops nothing.
    /// Unknown names are ignored.
    pub fn freeze(&mut self, names: &[String]) {
        let named = |link: &Link| names.iter().any(|name| is_within(&link.name, name));
        let links = self.chain.iter_mut().enumerate();
        for (index, link) in links.filter(|(_, link)| !link.is_frozen && named(link)) {
            link.freeze_parameters(index);
            link.is_frozen = true;
        }
    }

    /// Whether the stage at `index` is [frozen](Self::freeze).
    ///
    /// # Panics
    /// Panics if there is no such stage.
    pub fn is_frozen(&self, index: usize) -> bool {
        self.chain[index].is_frozen
    }

    /// The number of frozen stages before the first trained one. They need no graph.
    pub fn leading_frozen(&self) -> usize {
        self.chain.iter().take_while(|link| link.is_frozen).count()
    }

    /// Whether the stage at `index` recomputes by itself: see [`Stage::recomputes_itself`].
    ///
    /// # Panics
    /// Panics if there is no such stage.
    pub fn recomputes_itself(&self, index: usize, policy: &Policy) -> bool {
        self.chain[index].stage.recomputes_itself(policy)
    }

    /// Calls `visit` on every float parameter, stage by stage.
    pub fn visit(&self, visit: &mut dyn FnMut(ParameterInfo<'_>, AnyTensor)) {
        visit_stages(self, |_| true, visit);
    }

    /// Calls `visit` on every float parameter, stage by stage, until it fails.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub fn try_visit<E>(
        &self,
        mut visit: impl FnMut(ParameterInfo<'_>, AnyTensor) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut visited = Ok(());
        self.visit(&mut |info, tensor| {
            if visited.is_ok() {
                visited = visit(info, tensor);
            }
        });
        visited
    }

    /// Replaces every float parameter by the result of `map`.
    pub fn map(&mut self, map: &mut dyn FnMut(ParameterInfo<'_>, AnyTensor) -> AnyTensor) {
        map_stages(self, |_| true, map);
    }

    /// The number of trainable elements.
    pub fn trainable_elements(&self) -> usize {
        elements(self, |info| info.trainable)
    }

    /// The number of [frozen](Self::freeze) elements that would be trained otherwise.
    pub fn frozen_elements(&self) -> usize {
        elements(self, |info| info.frozen)
    }

    /// Applies the updates that a forward pass requested: see [`Pass::update`].
    pub fn apply(&mut self, updates: Vec<(ParamId, AnyTensor)>) {
        if updates.is_empty() {
            return;
        }
        let mut updates: HashMap<_, _> = updates.into_iter().collect();
        self.map(&mut |info, tensor| match updates.remove(&info.id) {
            Some(value) => value.tracked_like(&tensor, false),
            None => tensor,
        });
    }

    /// The same model off the autodiff device, for evaluation. Shares the parameters' storage.
    #[must_use]
    pub fn inference(&self) -> Self {
        let mut model = self.clone();
        model.map(&mut |_, tensor| tensor.inner());
        model
    }
}

/// Whether the stage at `index` stays in one graph with the next one: see [`Stage::hands_on`].
///
/// # Panics
/// Panics if there is no such stage.
pub fn hands_on(stages: &Stages, index: usize, policy: &Policy) -> bool {
    stages.chain[index].stage.hands_on(policy)
}

/// Freezes all parameters of the stage at `index`, which still runs as in training. Nothing of a [frozen](Stages::freeze) stage changes.
pub(crate) fn freeze_parameters(stages: &mut Stages, index: usize) {
    let link = &mut stages.chain[index];
    if !link.is_frozen {
        link.freeze_parameters(index);
    }
}

/// Replaces every stage by the result of `replace`.
pub(crate) fn replace_stages(
    stages: &mut Stages,
    mut replace: impl FnMut(Box<dyn AnyStage>) -> Box<dyn AnyStage>,
) {
    let links = std::mem::take(&mut stages.chain).into_iter();
    stages.chain = links.map(|link| Link { stage: replace(link.stage), ..link }).collect();
}

/// Adds all stages of a model to an ONNX graph, each in a scope with its name.
///
/// # Errors
/// [`ModelError::NotExported`] with the first stage that [cannot be exported](Stage::to_onnx).
pub(crate) fn stages_to_onnx(model: &Stages, graph: &mut Graph, input: Value) -> Result<Value, ModelError> {
    model.chain.iter().try_fold(input, |value, link| {
        let exported = graph.scope(&link.name, |graph| link.stage.to_onnx(graph, value));
        exported.ok_or_else(|| ModelError::NotExported { stage: link.name.clone(), kind: link.stage.kind() })
    })
}

/// The number of elements of the parameters that `counts`.
fn elements(stages: &Stages, counts: impl Fn(ParameterInfo<'_>) -> bool) -> usize {
    let mut count = 0;
    stages.visit(&mut |info, tensor| count += if counts(info) { tensor.elements() } else { 0 });
    count
}

/// As [`Stages::visit`], for the stages whose index `is_wanted` accepts.
pub fn visit_stages(
    stages: &Stages,
    is_wanted: impl Fn(usize) -> bool,
    visit: &mut dyn FnMut(ParameterInfo<'_>, AnyTensor),
) {
    for (index, link) in stages.chain.iter().enumerate().filter(|(index, _)| is_wanted(*index)) {
        let Link { name, stage, frozen, .. } = link;
        stage.visit(index, name.as_str(), &mut |info, tensor| {
            visit(with_frozen(info, frozen.as_deref()), tensor);
        });
    }
}

/// As [`Stages::map`], for the stages whose index `is_wanted` accepts.
pub fn map_stages(
    stages: &mut Stages,
    is_wanted: impl Fn(usize) -> bool,
    map: &mut dyn FnMut(ParameterInfo<'_>, AnyTensor) -> AnyTensor,
) {
    for (index, link) in stages.chain.iter_mut().enumerate().filter(|(index, _)| is_wanted(*index)) {
        let Link { name, stage, frozen, .. } = link;
        stage
            .map(index, name.as_str(), &mut |info, tensor| map(with_frozen(info, frozen.as_deref()), tensor));
    }
}

/// The info of a parameter, with whether it is in `frozen`.
fn with_frozen<'a>(info: ParameterInfo<'a>, frozen: Option<&HashSet<ParamId>>) -> ParameterInfo<'a> {
    ParameterInfo { frozen: frozen.is_some_and(|frozen| frozen.contains(&info.id)), ..info }
}

impl Carried {
    /// The state of the layers of `stages`.
    #[must_use]
    pub fn of_stages(&self, stages: &Stages) -> Self {
        let is_theirs = |layer: &str| stages.names().any(|stage| is_within(layer, stage));
        let theirs = self.tensors().iter().filter(|(name, _)| is_theirs(name));
        theirs.map(|(name, tensor)| (name.clone(), tensor.clone())).collect()
    }
}

impl Clone for Box<dyn AnyStage> {
    fn clone(&self) -> Self {
        self.clone_stage()
    }
}

impl fmt::Debug for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.chain.iter().map(|link| (&link.name, link.stage.kind()))).finish()
    }
}
