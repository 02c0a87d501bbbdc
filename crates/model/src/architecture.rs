use std::{fmt, sync::Arc};

use oomph_core::SampleSpec;

use crate::{AnyTensor, Init, ModelError, Stages};

type Build = dyn Fn(&SampleSpec, &Init) -> Result<Stages, ModelError> + Send + Sync;
type Rename = dyn Fn(&str) -> String + Send + Sync;

/// A model whose settings are read but whose parameters do not exist yet.
///
/// Building is a function of the samples' shape and of where parameters go, so that one architecture can be trained,
/// evaluated, summarised and planned, each on its own device.
#[derive(Clone)]
pub struct Architecture {
    name: String,
    build: Arc<Build>,
    pytorch_name: Arc<Rename>,
    pytorch_twins: Vec<(String, String)>,
    frozen: Vec<String>,
}

impl Architecture {
    /// The architecture that `build` makes.
    pub fn new(
        name: impl Into<String>,
        build: impl Fn(&SampleSpec, &Init) -> Result<Stages, ModelError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            build: Arc::new(build),
            pytorch_name: Arc::new(str::to_owned),
            pytorch_twins: Vec::new(),
            frozen: Vec::new(),
        }
    }

    /// The same, whose parameters PyTorch's network of that kind calls as `pytorch_name` says: weights are read and
    /// written under these names too. Without it they are those of the model tree.
    #[must_use]
    pub fn with_pytorch_names(
        mut self,
        pytorch_name: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        self.pytorch_name = Arc::new(pytorch_name);
        self
    }

    /// The same, whose parameter `name` PyTorch's network has once more as `twin`: of two layers that share it, both have
    /// it in a state dict.
    #[must_use]
    pub fn with_pytorch_twin(mut self, name: impl Into<String>, twin: impl Into<String>) -> Self {
        self.pytorch_twins.push((name.into(), twin.into()));
        self
    }

    /// The same, with the stages that `names` name, or are groups of, [frozen](Stages::freeze).
    #[must_use]
    pub fn with_frozen(mut self, names: Vec<String>) -> Self {
        self.frozen = names;
        self
    }

    /// The name that PyTorch's network of that kind gives to the parameter `name`.
    pub fn pytorch_name(&self, name: &str) -> String {
        (self.pytorch_name)(name)
    }

    /// Parameters that PyTorch's network of that kind has twice: our name, and PyTorch's second one.
    pub fn pytorch_twins(&self) -> &[(String, String)] {
        &self.pytorch_twins
    }

    /// The model's name, as in `model.name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the model, all of its parameters initialised.
    ///
    /// # Errors
    /// Where the model cannot take such samples, and where the chain is empty or names a stage twice.
    pub fn build(&self, spec: &SampleSpec, init: &Init) -> Result<Stages, ModelError> {
        if init.draws_values() {
            // Burn's own layers draw from the device's generator, when they are first looked at.
            init.device().seed(init.seed());
        }
        let mut model = (self.build)(spec, init)?;
        model.check()?;
        model.visit(&mut |_, _: AnyTensor| {});
        model.freeze(&self.frozen);
        Ok(model)
    }
}

impl fmt::Debug for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Architecture").field(&self.name).finish()
    }
}
