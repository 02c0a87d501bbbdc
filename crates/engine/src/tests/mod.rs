//! A small model and its layouts, for unit tests.

use std::time::Duration;

use burn::{module::Module, tensor::Device};
use oomph_model::{AnyTensor, Init, ModelError, Pass, Stage, Stages, layers::Linear};
use oomph_parallel::PipelineOrder;

use crate::layout::{DeviceSlot, Layout, Role};

/// The names of the stages of [`model`].
pub(crate) const STAGES: [&str; 3] = ["stem", "middle", "head"];

/// The features of the input and the output of each stage.
pub(crate) const FEATURES: usize = 4;

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
    let dense = || Dense { linear: Linear::new(&init, [FEATURES, FEATURES]) };
    STAGES.into_iter().fold(Stages::new(), |model, name| model.with(name, dense()))
}

/// A layout of the model: one device more than there are split points.
pub(crate) fn layout(split_points: &[usize]) -> Layout {
    let devices = split_points.len() + 1;
    let starts = std::iter::once(0).chain(split_points.iter().copied());
    let ends = split_points.iter().copied().chain([STAGES.len()]);
    let slots = starts.zip(ends).enumerate().map(|(device_index, (start, end))| {
        let role = Role::Stages { device: device_index, devices, order: PipelineOrder::GPipe };
        DeviceSlot::new(device_index, "cpu".into(), device(), start..end, role)
    });
    Layout::new(slots.collect(), Duration::from_secs(10))
}

/// The CPU with autodiff.
pub(crate) fn device() -> Device {
    Device::flex().autodiff()
}
