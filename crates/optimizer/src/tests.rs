//! A small model for unit tests.

use burn::{module::Module, tensor::Device};
use oomph_model::{AnyTensor, Init, ModelError, Pass, Stage, Stages, layers::Linear};

#[derive(Module, Debug)]
struct Dense {
    linear: Linear,
}

impl Stage for Dense {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.float::<2>(input)?;
        Ok(self.linear.forward(x, pass)?.into())
    }
}

/// A model of three linear stages on the autodiff device.
pub(crate) fn model() -> Stages {
    let init = Init::new(&device(), 7);
    let stage = |name: &str| Stages::new().with(name, Dense { linear: Linear::new(&init, [4, 4]) });
    stage("stem").followed_by(stage("middle")).followed_by(stage("head"))
}

/// The CPU with autodiff.
pub(crate) fn device() -> Device {
    Device::flex().autodiff()
}
