use std::{fmt, sync::Arc};

use oomph_core::SampleSpec;

use crate::{AnyTensor, Init, ModelError, Stages};

type Build = dyn Fn(&SampleSpec, &Init) -> Result<Stages, ModelError> + Send + Sync;

/// A model whose settings are read but whose parameters do not exist yet.
///
/// Building is a function of the samples' shape and of where parameters go, so that one architecture can be trained,
/// evaluated, summarised and planned, each on its own device.
#[derive(Clone)]
pub struct Architecture {
    name: String,
    build: Arc<Build>,
}

impl Architecture {
    /// The architecture that `build` makes.
    pub fn new(
        name: impl Into<String>,
        build: impl Fn(&SampleSpec, &Init) -> Result<Stages, ModelError> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), build: Arc::new(build) }
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
        let model = (self.build)(spec, init)?;
        model.check()?;
        model.visit(&mut |_, _: AnyTensor| {});
        Ok(model)
    }
}

impl fmt::Debug for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Architecture").field(&self.name).finish()
    }
}
