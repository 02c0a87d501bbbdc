//! Copies of batches from host memory to a device.

use burn::tensor::{Device, Int, Tensor, TensorData};
use oomph_data::{Batch, Targets, Values};
use oomph_model::AnyTensor;

use crate::task::DeviceTargets;

/// Copies a batch from host memory to the device.
///
/// The CPU device copies too: a batch of the loader is host memory, and its copy counts as in use on the device.
pub fn upload(batch: &Batch, device: &Device) -> (AnyTensor, DeviceTargets) {
    (upload_input(&batch.input, &batch.shape, device), upload_targets(&batch.targets, device))
}

/// Copies inputs of this shape, `[B, …]`, to the device.
pub fn upload_input(input: &Values, shape: &[usize], device: &Device) -> AnyTensor {
    match input {
        Values::Floats(values) => AnyTensor::floats(values.clone(), shape, device),
        Values::Tokens(tokens) => {
            let shape = [shape[0], shape[1..].iter().product()];
            Tensor::<2, Int>::from_data(TensorData::new(tokens.clone(), shape), device).into()
        }
    }
}

/// Copies targets to the device.
pub fn upload_targets(targets: &Targets, device: &Device) -> DeviceTargets {
    let uploaded =
        |classes: &Vec<i64>| Tensor::from_data(TensorData::new(classes.clone(), [classes.len()]), device);
    match targets {
        Targets::Classes(classes) => DeviceTargets::Classes(uploaded(classes)),
        Targets::Mixed { classes, partners, share } => {
            DeviceTargets::Mixed { classes: uploaded(classes), partners: uploaded(partners), share: *share }
        }
        Targets::Labels { data, count } => {
            let shape = [data.len() / (*count).max(1), *count];
            DeviceTargets::Labels(Tensor::from_data(TensorData::new(data.clone(), shape), device))
        }
        Targets::Values { data, features } => {
            let shape = [data.len() / (*features).max(1), *features];
            DeviceTargets::Values(Tensor::from_data(TensorData::new(data.clone(), shape), device))
        }
        Targets::Tokens { data, steps } => {
            let shape = [data.len() / (*steps).max(1), *steps];
            DeviceTargets::Tokens(Tensor::from_data(TensorData::new(data.clone(), shape), device))
        }
    }
}
