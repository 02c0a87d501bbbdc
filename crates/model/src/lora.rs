//! Low-rank adapters of weights (LoRA: Hu et al. 2021, <https://arxiv.org/abs/2106.09685>).

use std::ops::Bound;

use burn::{
    module::{ModuleMapper, ModuleVisitor, Param},
    tensor::Tensor,
};
use oomph_config::{ConfigError, Section};
use oomph_core::is_within;
use oomph_onnx::{Graph, Value};

use crate::{
    AnyTensor, Init, ModelError, Named, ParameterInfo, Pass, Policy, Stages,
    autodiff::held_until_here,
    parameters::{Map, Visit, Walk},
    stage::AnyStage,
    stages::{freeze_parameters, replace_stages, visit_stages},
};

/// Which weights of a model have adapters, and how large these are.
///
/// A weight W `[O, …]` is frozen, and its layer computes with W + α/r · B A, where B `[O, r]` starts at 0 and A `[r, …]` uniform as a
/// linear layer of that many inputs. Only A and B are trained, so gradients and optimizer state are theirs alone. Layers of all kinds have
/// adapters, since they see nothing but a weight; a convolution's is taken as a matrix with a row for each output channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Lora {
    /// The rank of the adapters, r.
    pub rank: usize,
    /// α: the change of a weight is scaled by α/r.
    pub alpha: f64,
    /// Parts of the names of weights, such as `qkv`. Empty: all weights that are matrices, but embeddings and those of the last stage.
    pub targets: Vec<String>,
    /// Stages and groups of stages that are trained whole, such as a new head.
    pub train: Vec<String>,
}

/// The endings of the names of an adapter's parameters A and B, behind the name of the weight.
pub const LORA_ENDINGS: [&str; 2] = [".lora_a", ".lora_b"];

/// Whether this is the name of an adapter's parameter.
pub(crate) fn is_adapter(name: &str) -> bool {
    LORA_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

impl Lora {
    /// Reads `lora` of the section `[model]`; `None` without `lora.rank`.
    ///
    /// # Errors
    /// A setting has a wrong type or is out of range, or the rank is missing beside another one.
    pub fn read(settings: &Section) -> Result<Option<Self>, ConfigError> {
        let rank = settings.optional_integer("lora.rank", 1..=4096)?;
        let alpha = settings.optional_number("lora.alpha", (Bound::Excluded(0.0), Bound::Unbounded))?;
        let [targets, train] = [settings.strings("lora.targets", &[])?, settings.strings("lora.train", &[])?];
        let Some(rank) = rank else {
            let keys =
                [(alpha.is_some(), "alpha"), (!targets.is_empty(), "targets"), (!train.is_empty(), "train")];
            let Some((_, key)) = keys.into_iter().find(|(is_set, _)| *is_set) else { return Ok(None) };
            let expected = format!("the rank of adapters, since `model.lora.{key}` is set");
            return Err(ConfigError::Missing { key: "model.lora.rank".to_owned(), expected });
        };
        Ok(Some(Self { rank, alpha: alpha.unwrap_or(2.0 * rank as f64), targets, train }))
    }

    /// The factor of an adapter's change: α/r.
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }

    /// The weights of a stage that have adapters, by their names in the stage, with their shapes.
    fn weights(&self, stages: &Stages, stage: usize) -> Vec<(String, Vec<usize>)> {
        let (mut weights, is_last) = (Vec::new(), stage + 1 == stages.len());
        let own = stages.names().nth(stage).map_or(0, |name| name.len() + 1);
        visit_stages(stages, |index| index == stage, &mut |info, weight| {
            let is_chosen = match self.targets.is_empty() {
                true => !is_last,
                false => self.targets.iter().any(|target| is_part(info.name, target)),
            };
            if is_chosen && is_adaptable(&info, &weight) {
                weights.push((info.name[own..].to_owned(), weight.dims()));
            }
        });
        weights
    }

    /// The adapters of each stage. None of a stage that is trained whole.
    ///
    /// # Errors
    /// [`ModelError::NotAdapted`] where a target is no part of the name of a weight, and where no weight has an adapter.
    fn adapters(&self, stages: &Stages, init: &Init) -> Result<Vec<Adapters>, ModelError> {
        self.check_targets(stages)?;
        let of_stage = |(stage, name): (usize, &str)| {
            let init = init.at(name);
            let adapter = |(weight, shape): (String, Vec<usize>)| {
                let adapter = Adapter::new(self, &shape, &init.at(&weight));
                (weight, adapter)
            };
            let is_left = self.trains(name) || stages.is_frozen(stage);
            let weights = if is_left { Vec::new() } else { self.weights(stages, stage) };
            Adapters { of_weights: weights.into_iter().map(adapter).collect(), scale: self.scale() as f32 }
        };
        let adapters: Vec<Adapters> = stages.names().enumerate().map(of_stage).collect();
        match adapters.iter().all(Adapters::is_empty) {
            true => Err(self.not_adapted(stages, None)),
            false => Ok(adapters),
        }
    }

    /// Freezes all parameters of a model but those of the stages that are trained whole, and adds the adapters. A stage without adapters is
    /// [frozen](Stages::freeze); the others run as in training.
    ///
    /// # Errors
    /// [`ModelError::NotAdapted`] where a target is no part of the name of a weight, and where no weight has an adapter.
    pub fn adapt(&self, model: &mut Stages, init: &Init) -> Result<(), ModelError> {
        let adapters = self.adapters(model, init)?;
        let names: Vec<String> = model.names().map(str::to_owned).collect();
        let of_stage = names.iter().zip(&adapters).enumerate().filter(|(_, (name, _))| !self.trains(name));
        let mut frozen = Vec::new();
        for (index, (name, adapters)) in of_stage {
            match adapters.is_empty() {
                true => frozen.push(name.clone()),
                false => freeze_parameters(model, index),
            }
        }
        model.freeze(&frozen);
        let mut adapters = adapters.into_iter();
        replace_stages(model, |stage| match adapters.next() {
            Some(adapters) if !adapters.is_empty() => Box::new(Adapted { stage, adapters }),
            _ => stage,
        });
        Ok(())
    }

    /// Whether the stage `name` is trained whole.
    fn trains(&self, name: &str) -> bool {
        self.train.iter().any(|trained| is_within(name, trained))
    }

    fn check_targets(&self, stages: &Stages) -> Result<(), ModelError> {
        let mut missing: Vec<&String> = self.targets.iter().collect();
        stages.visit(&mut |info, weight| {
            if is_adaptable(&info, &weight) {
                missing.retain(|target| !is_part(info.name, target));
            }
        });
        missing.first().map_or(Ok(()), |target| Err(self.not_adapted(stages, Some((*target).clone()))))
    }

    fn not_adapted(&self, stages: &Stages, target: Option<String>) -> ModelError {
        let mut layers: Vec<String> = Vec::new();
        stages.visit(&mut |info, weight| {
            // The weight of the layer `qkv` is named `qkv.weight`.
            let layer = info.name.rsplit('.').nth(1).unwrap_or(info.name);
            if is_adaptable(&info, &weight) && !layers.iter().any(|known| known == layer) {
                layers.push(layer.to_owned());
            }
        });
        ModelError::NotAdapted { target, layers }
    }
}

/// The same model without adapters: its weights have their changes. It takes memory of its own for these weights.
#[must_use]
pub fn merged(mut model: Stages) -> Stages {
    replace_stages(&mut model, |stage| stage.merged().unwrap_or(stage));
    model
}

/// Whether one of the parts of a name, or the beginning of the name, is `target`.
fn is_part(name: &str, target: &str) -> bool {
    is_within(name, target) || name.split('.').any(|part| part == target)
}

/// Whether a parameter is a weight that can have an adapter.
fn is_adaptable(info: &ParameterInfo<'_>, weight: &AnyTensor) -> bool {
    let field = info.name.rsplit('.').next().unwrap_or(info.name);
    weight.rank() >= 2 && field.starts_with("weight") && !info.is_embedding
}

/// The adapters of a stage, by the names of its weights.
#[derive(Clone)]
struct Adapters {
    of_weights: Named<Adapter>,
    scale: f32,
}

#[derive(Clone)]
struct Adapter {
    /// `[r, I]`.
    a: Param<Tensor<2>>,
    /// `[O, r]`.
    b: Param<Tensor<2>>,
}

impl Adapter {
    fn new(lora: &Lora, shape: &[usize], init: &Init) -> Self {
        let (outputs, inputs) = (shape[0], shape[1..].iter().product::<usize>());
        let bound = 1.0 / (inputs as f64).sqrt();
        Self {
            a: init.uniform("lora_a", [lora.rank, inputs], bound),
            b: init.constant([outputs, lora.rank], 0.0),
        }
    }

    /// The weight with its change.
    fn weight(&self, weight: AnyTensor, scale: f32) -> AnyTensor {
        let change = AnyTensor::from(self.b.val().matmul(self.a.val())).scale(scale);
        let shape = weight.dims();
        weight.add(change.shaped(&shape))
    }
}

impl Adapters {
    fn is_empty(&self) -> bool {
        self.of_weights.is_empty()
    }
}

/// A stage some of whose weights have adapters.
struct Adapted {
    stage: Box<dyn AnyStage>,
    adapters: Adapters,
}

impl Adapted {
    /// The stage that computes with the changed weights.
    fn changed(&self) -> Box<dyn AnyStage> {
        let Adapters { of_weights, scale } = &self.adapters;
        let mut stage = self.stage.clone_stage();
        stage.map(0, "", &mut |info, weight| match of_weights.get(info.name) {
            Some(adapter) => adapter.weight(weight, *scale),
            None => weight,
        });
        stage
    }
}

impl AnyStage for Adapted {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let stage = self.changed();
        let output = stage.forward(input, pass);
        // The stage holds its changed weights.
        stage.visit(0, "", &mut |info, weight| {
            if self.adapters.of_weights.contains_key(info.name) {
                held_until_here(weight);
            }
        });
        output
    }

    fn lends(&self) -> Named<AnyTensor> {
        self.stage.lends()
    }

    fn borrows(&self) -> Vec<String> {
        self.stage.borrows()
    }

    fn to_onnx(&self, graph: &mut Graph, input: Value) -> Option<Value> {
        self.stage.to_onnx(graph, input)
    }

    fn recomputes_itself(&self, policy: &Policy) -> bool {
        self.stage.recomputes_itself(policy)
    }

    fn hands_on(&self, policy: &Policy) -> bool {
        self.stage.hands_on(policy)
    }

    fn visit(&self, index: usize, name: &str, visit: &mut Visit<'_>) {
        self.stage.visit(index, name, visit);
        for (weight, Adapter { a, b }) in &self.adapters.of_weights {
            for (parameter, ending) in [a, b].into_iter().zip(LORA_ENDINGS) {
                Walk::new(index, &format!("{name}.{weight}{ending}"), &mut *visit).visit_float(parameter);
            }
        }
    }

    fn map(&mut self, index: usize, name: &str, map: &mut Map<'_>) {
        self.stage.map(index, name, map);
        self.adapters.of_weights = std::mem::take(&mut self.adapters.of_weights)
            .into_iter()
            .map(|(weight, Adapter { a, b })| {
                let [a, b] = [(a, LORA_ENDINGS[0]), (b, LORA_ENDINGS[1])].map(|(parameter, ending)| {
                    Walk::new(index, &format!("{name}.{weight}{ending}"), &mut *map).map_float(parameter)
                });
                (weight, Adapter { a, b })
            })
            .collect();
    }

    fn clone_stage(&self) -> Box<dyn AnyStage> {
        Box::new(Self { stage: self.stage.clone_stage(), adapters: self.adapters.clone() })
    }

    fn kind(&self) -> &'static str {
        self.stage.kind()
    }

    fn merged(&self) -> Option<Box<dyn AnyStage>> {
        Some(self.changed())
    }
}
