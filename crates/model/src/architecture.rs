use std::{collections::BTreeMap, fmt, sync::Arc};

use oomph_core::SampleSpec;

use crate::{
    AnyTensor, Init, ModelError, Stages,
    lora::Lora,
    weights::{Layout, Library},
};

type Build = dyn Fn(&SampleSpec, &Init) -> Result<Stages, ModelError> + Send + Sync;

/// A model with its settings, before its parameters exist.
///
/// Building depends only on the shape of the samples and the device of the parameters. So one architecture can be trained,
/// evaluated, summarised and planned, each on its own device.
#[derive(Clone)]
pub struct Architecture {
    name: String,
    build: Arc<Build>,
    layouts: Vec<Layout>,
    frozen: Vec<String>,
    has_key_value_cache: bool,
    has_tokenwise_head: bool,
    lora: Option<Lora>,
    unshown: UnshownSettings,
}

/// Settings that no shape of a parameter shows, by their keys in the configuration, such as the heads of a transformer.
pub type UnshownSettings = BTreeMap<String, String>;

impl Architecture {
    /// The note in weight files with the [settings that no shape shows](Self::unshown_settings), as a JSON object of texts.
    pub const NOTE: &str = "oomph.network";

    /// An architecture whose models `build` makes.
    pub fn new(
        name: impl Into<String>,
        build: impl Fn(&SampleSpec, &Init) -> Result<Stages, ModelError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            build: Arc::new(build),
            layouts: Vec::new(),
            frozen: Vec::new(),
            has_key_value_cache: false,
            has_tokenwise_head: false,
            lora: None,
            unshown: UnshownSettings::new(),
        }
    }

    /// Adds the parameter names of PyTorch's network of that kind: weights are read and written under these names too.
    /// Without a layout the names are those of the model tree.
    #[must_use]
    pub fn with_pytorch_names(self, pytorch_name: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.with_layout(Layout::of_names(pytorch_name))
    }

    /// Adds a layout of files. Weights are read in any of them, and written in the first.
    #[must_use]
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.layouts.push(layout);
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

    /// Declares settings that no shape of a parameter shows. Files of weights note them, and a model with others refuses the file.
    #[must_use]
    pub fn with_unshown_settings(mut self, settings: UnshownSettings) -> Self {
        self.unshown = settings;
        self
    }

    /// The settings that no shape of a parameter shows.
    pub fn unshown_settings(&self) -> &UnshownSettings {
        &self.unshown
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

    /// The layouts of files, besides that of the model tree.
    pub fn layouts(&self) -> &[Layout] {
        &self.layouts
    }

    /// The layout of a library's files.
    pub fn layout(&self, library: Library) -> Option<&Layout> {
        self.layouts.iter().find(|layout| layout.library() == library)
    }

    /// The name of the parameter `name` in the first layout; where it is several tensors, that of the first.
    pub fn pytorch_name(&self, name: &str) -> String {
        let parts = self.layouts.first().map(|layout| layout.parts(name, &[]));
        parts.and_then(|parts| parts.into_iter().next()).map_or_else(|| name.to_owned(), |part| part.name)
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
