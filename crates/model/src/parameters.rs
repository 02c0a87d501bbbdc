use std::collections::BTreeMap;

use burn::{
    module::{ModuleMapper, ModuleVisitor, Param, ParamId},
    tensor::Tensor,
};

use crate::AnyTensor;

/// Values by parameter name, in the order of names: the same on every machine and in every run.
pub type Named<T> = BTreeMap<String, T>;

/// A float parameter of a model, without its values.
#[derive(Clone, Copy, Debug)]
pub struct ParameterInfo<'a> {
    /// Its name in the model tree, such as `layer1.0.conv1.weight`: the stage's name first.
    pub name: &'a str,
    /// The index of its stage in the chain.
    pub stage: usize,
    /// Its identity in Burn, within this process.
    pub id: ParamId,
    /// Whether it has a gradient. Running statistics are parameters that have none.
    pub trainable: bool,
    /// Whether it would have a gradient if its stage were not [frozen](crate::Stages::freeze).
    pub frozen: bool,
    /// Whether it is the table of an embedding: the weight of a layer whose type is named `Embedding`.
    pub is_embedding: bool,
}

/// A function to call on every float parameter.
pub(crate) type Visit<'a> = dyn FnMut(ParameterInfo<'_>, AnyTensor) + 'a;

/// A function that replaces a float parameter by its result, on the device of that result.
pub(crate) type Map<'a> = dyn FnMut(ParameterInfo<'_>, AnyTensor) -> AnyTensor + 'a;

/// The place of a walk in the model tree.
struct TreePlace {
    stage: usize,
    path: String,
    /// Of each module on the way here, whether it is an embedding.
    embeddings: Vec<bool>,
}

impl TreePlace {
    /// Enters a field of a module whose type is `container`, as Burn names it.
    fn enter(&mut self, name: &str, container: &str) {
        self.embeddings.push(container == "Struct:Embedding");
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }

    fn leave(&mut self, name: &str) {
        self.embeddings.pop();
        let end = self.path.len() - name.len();
        self.path.truncate(end.saturating_sub(1));
    }

    /// The info of the parameter here.
    fn info<const D: usize>(&self, id: ParamId, tensor: &Tensor<D>) -> ParameterInfo<'_> {
        let trainable = tensor.is_require_grad();
        let is_embedding = self.embeddings.last().is_some_and(|is_embedding| *is_embedding);
        ParameterInfo { name: &self.path, stage: self.stage, id, trainable, frozen: false, is_embedding }
    }
}

/// A walk through all float parameters of a stage. Their names begin with the name of the stage.
pub(crate) struct Walk<'a, F: ?Sized> {
    place: TreePlace,
    each: &'a mut F,
}

impl<'a, F: ?Sized> Walk<'a, F> {
    pub(crate) fn new(stage: usize, name: &str, each: &'a mut F) -> Self {
        Self { place: TreePlace { stage, path: name.to_owned(), embeddings: Vec::new() }, each }
    }
}

impl ModuleVisitor for Walk<'_, Visit<'_>> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.place.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, _container: &str) {
        self.place.leave(name);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        (self.each)(self.place.info(param.id, &tensor), tensor.into());
    }
}

impl ModuleMapper for Walk<'_, Map<'_>> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.place.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, _container: &str) {
        self.place.leave(name);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        // Consuming leaves one owner of the tensor, so that an update can be in place.
        let (id, tensor, mapper) = param.consume();
        let mapped = (self.each)(self.place.info(id, &tensor), tensor.into());
        let tensor = Tensor::from_bridge(mapped.into_parts().1);
        Param::from_mapped_value(id, tensor, mapper)
    }
}
