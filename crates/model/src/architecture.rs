use std::{fmt, sync::Arc};

use oomph_core::SampleSpec;

use crate::{AnyTensor, Init, ModelError, Stages, lora::Lora, weights::TensorForm};

type Build = dyn Fn(&SampleSpec, &Init) -> Result<Stages, ModelError> + Send + Sync;
type Rename = dyn Fn(&str) -> String + Send + Sync;
type Form = dyn Fn(&str, &[usize]) -> TensorForm + Send + Sync;

/// A model with its settings, before its parameters exist.
///
/// Building depends only on the shape of the samples and the device of the parameters. So one architecture can be trained,
/// evaluated, summarised and planned, each on its own device.
#[derive(Clone)]
pub struct Architecture {
    name: String,
    build: Arc<Build>,
    pytorch_name: Arc<Rename>,
    pytorch_form: Arc<Form>,
    pytorch_buffers: Vec<String>,
    pytorch_twins: Vec<(String, String)>,
    frozen: Vec<String>,
    has_key_value_cache: bool,
    has_tokenwise_head: bool,
    lora: Option<Lora>,
}

impl Architecture {
    /// An architecture whose models `build` makes.
    pub fn new(
        name: impl Into<String>,
        build: impl Fn(&SampleSpec, &Init) -> Result<Stages, ModelError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            build: Arc::new(build),
            pytorch_name: Arc::new(str::to_owned),
            pytorch_form: Arc::new(|_, _| TensorForm::Same),
            pytorch_buffers: Vec::new(),
            pytorch_twins: Vec::new(),
            frozen: Vec::new(),
            has_key_value_cache: false,
            has_tokenwise_head: false,
            lora: None,
        }
    }

    /// Sets the parameter names of PyTorch's network of that kind: weights are read and written under these names too.
    /// Without it the names are those of the model tree.
    #[must_use]
    pub fn with_pytorch_names(
        mut self,
        pytorch_name: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        self.pytorch_name = Arc::new(pytorch_name);
        self
    }

    /// Sets how PyTorch's network of that kind stores a parameter of this name and shape. Without it shapes are equal.
    #[must_use]
    pub fn with_pytorch_forms(
        mut self,
        form: impl Fn(&str, &[usize]) -> TensorForm + Send + Sync + 'static,
    ) -> Self {
        self.pytorch_form = Arc::new(form);
        self
    }

    /// Declares that PyTorch's state dicts contain tensors whose names end so, and that they are no parameters.
    #[must_use]
    pub fn with_pytorch_buffers(mut self, endings: &[&str]) -> Self {
        self.pytorch_buffers = endings.iter().map(|ending| (*ending).to_owned()).collect();
        self
    }

    /// Declares that PyTorch's state dicts contain the parameter `name` a second time, as `twin`: two layers share it.
    #[must_use]
    pub fn with_pytorch_twin(mut self, name: impl Into<String>, twin: impl Into<String>) -> Self {
        self.pytorch_twins.push((name.into(), twin.into()));
        self
    }

    /// Declares that a position reads earlier ones by [attention](crate::layers::SelfAttention) alone: a pass with a
    /// [cache](crate::KeyValueCache) gives the logits of the whole text.
    #[must_use]
    pub fn with_key_value_cache(mut self) -> Self {
        self.has_key_value_cache = true;
        self
    }

    /// Whether passes may have a cache.
    pub fn has_key_value_cache(&self) -> bool {
        self.has_key_value_cache
    }

    /// Declares that the last stage computes each token alone, but for dropout: `[1, N, C]` of any N tokens in the place of
    /// `[B, T, C]`. The loss may then be computed by chunks (`memory.loss_chunk`).
    #[must_use]
    pub fn with_tokenwise_head(mut self) -> Self {
        self.has_tokenwise_head = true;
        self
    }

    /// Whether the last stage computes each token alone.
    pub fn has_tokenwise_head(&self) -> bool {
        self.has_tokenwise_head
    }

    /// [Freezes](Stages::freeze) the stages or groups of stages in `names`.
    #[must_use]
    pub fn with_frozen(mut self, names: Vec<String>) -> Self {
        self.frozen = names;
        self
    }

    /// Adds low-rank [adapters](Lora::adapt), which alone are trained; `None` for a model without.
    #[must_use]
    pub fn with_lora(mut self, lora: Option<Lora>) -> Self {
        self.lora = lora;
        self
    }

    /// The adapters of the model, if it has some.
    pub fn lora(&self) -> Option<&Lora> {
        self.lora.as_ref()
    }

    /// The name of the parameter `name` in PyTorch's network of that kind.
    pub fn pytorch_name(&self, name: &str) -> String {
        (self.pytorch_name)(name)
    }

    /// How PyTorch's network of that kind stores the parameter `name` of this shape.
    pub fn pytorch_form(&self, name: &str, shape: &[usize]) -> TensorForm {
        (self.pytorch_form)(name, shape)
    }

    /// Whether PyTorch's tensor `name` is no parameter of the model.
    pub fn is_pytorch_buffer(&self, name: &str) -> bool {
        self.pytorch_buffers.iter().any(|ending| name.ends_with(ending.as_str()))
    }

    /// The parameters that PyTorch's state dicts contain twice: our name, and PyTorch's second name.
    pub fn pytorch_twins(&self) -> &[(String, String)] {
        &self.pytorch_twins
    }

    /// The model's name, as in `model.name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Builds the model and initialises all its parameters.
    ///
    /// # Errors
    /// The model cannot take such samples, or the chain is empty or names a stage twice.
    pub fn build(&self, spec: &SampleSpec, init: &Init) -> Result<Stages, ModelError> {
        if init.draws_values() {
            // Burn's own layers draw from the device's generator at their first use.
            init.device().seed(init.seed());
        }
        let mut model = (self.build)(spec, init)?;
        model.check()?;
        model.visit(&mut |_, _: AnyTensor| {});
        model.freeze(&self.frozen);
        if let Some(lora) = &self.lora {
            lora.adapt(&mut model, &init.at("lora"))?;
        }
        Ok(model)
    }
}

impl fmt::Debug for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Architecture").field(&self.name).finish()
    }
}
