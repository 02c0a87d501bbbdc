use std::collections::BTreeMap;

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId},
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
}

/// Calls `visit` on every float parameter of `module`. Names are below `prefix`, the name of the stage.
pub(crate) fn visit<M: Module>(
    module: &M,
    stage: usize,
    prefix: &str,
    visit: &mut dyn FnMut(ParameterInfo<'_>, AnyTensor),
) {
    module.visit(&mut Visitor { stage, path: Path::new(prefix), visit });
}

/// Replaces every float parameter of `module` by the result of `map`, on the device of that result.
pub(crate) fn map<M: Module>(
    module: M,
    stage: usize,
    prefix: &str,
    map: &mut dyn FnMut(ParameterInfo<'_>, AnyTensor) -> AnyTensor,
) -> M {
    module.map(&mut Mapper { stage, path: Path::new(prefix), map })
}

struct Path(String);

impl Path {
    fn new(prefix: &str) -> Self {
        Self(prefix.to_owned())
    }

    fn enter(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push('.');
        }
        self.0.push_str(name);
    }

    fn leave(&mut self, name: &str) {
        let end = self.0.len() - name.len();
        self.0.truncate(end.saturating_sub(1));
    }
}

struct Visitor<'a> {
    stage: usize,
    path: Path,
    visit: &'a mut dyn FnMut(ParameterInfo<'_>, AnyTensor),
}

impl ModuleVisitor for Visitor<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, name: &str, _container: &str) {
        self.path.leave(name);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        let info = ParameterInfo {
            name: &self.path.0,
            stage: self.stage,
            id: param.id,
            trainable: tensor.is_require_grad(),
            frozen: false,
        };
        (self.visit)(info, tensor.into());
    }
}

struct Mapper<'a> {
    stage: usize,
    path: Path,
    map: &'a mut dyn FnMut(ParameterInfo<'_>, AnyTensor) -> AnyTensor,
}

impl ModuleMapper for Mapper<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, name: &str, _container: &str) {
        self.path.leave(name);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        // Consuming leaves one owner of the tensor, so that an update can be in place.
        let (id, tensor, mapper) = param.consume();
        let info = ParameterInfo {
            name: &self.path.0,
            stage: self.stage,
            id,
            trainable: tensor.is_require_grad(),
            frozen: false,
        };
        let mapped = (self.map)(info, tensor.into());
        let tensor = Tensor::from_bridge(mapped.into_parts().1);
        Param::from_mapped_value(id, tensor, mapper)
    }
}
