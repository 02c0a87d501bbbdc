//! Parameters and optimizer state on the host, as checkpoints hold them.

use std::collections::{BTreeMap, BTreeSet};

use burn::tensor::Device;
use oomph_model::{Named, Stages};
use serde::{Deserialize, Serialize};

pub use crate::record_error::RecordError;

use crate::host_tensor::HostTensor;

/// Optimizer state on the host. Its leaves are named `<parameter>.<field>`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptimizerRecord {
    /// Leaves that are tensors.
    pub tensors: Named<HostTensor>,
    /// Leaves that are numbers, such as the step count.
    pub scalars: BTreeMap<String, Scalar>,
    /// The number of dimensions of each parameter that has state.
    pub ranks: BTreeMap<String, usize>,
}

/// A number in optimizer state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scalar {
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// The bits of a 64-bit float, which JSON keeps exactly.
    FloatBits(u64),
    /// A truth value.
    Bool(bool),
}

impl From<burn_pack::Scalar> for Scalar {
    fn from(scalar: burn_pack::Scalar) -> Self {
        match scalar {
            burn_pack::Scalar::Int(value) => Self::Int(value),
            burn_pack::Scalar::UInt(value) => Self::Uint(value),
            burn_pack::Scalar::Float(value) => Self::FloatBits(value.to_bits()),
            burn_pack::Scalar::Bool(value) => Self::Bool(value),
        }
    }
}

impl From<Scalar> for burn_pack::Scalar {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Int(value) => Self::Int(value),
            Scalar::Uint(value) => Self::UInt(value),
            Scalar::FloatBits(bits) => Self::Float(f64::from_bits(bits)),
            Scalar::Bool(value) => Self::Bool(value),
        }
    }
}

/// Copies the parameters and running statistics of a model to the host.
///
/// # Errors
/// If the device fails.
pub fn model_record(model: &Stages) -> Result<Named<HostTensor>, RecordError> {
    let mut record = Named::new();
    let mut failed = None;
    model.visit(&mut |info, tensor| match HostTensor::from_tensor(&tensor) {
        Ok(tensor) => {
            record.insert(info.name.to_owned(), tensor);
        }
        Err(error) => failed = failed.take().or(Some(error)),
    });
    failed.map_or(Ok(record), Err)
}

/// Copies recorded values into a model on `device`.
///
/// # Errors
/// [`RecordError::Parameters`] if names or shapes differ. The model is then unchanged.
pub fn restore_model(
    model: &mut Stages,
    record: &Named<HostTensor>,
    device: &Device,
) -> Result<(), RecordError> {
    let mut problems = Vec::new();
    let mut known = BTreeSet::new();
    model.visit(&mut |info, tensor| {
        known.insert(info.name.to_owned());
        match record.get(info.name) {
            None => problems.push(format!("`{}` is missing", info.name)),
            Some(saved) if saved.shape != tensor.dims() => problems.push(format!(
                "`{}` is {:?} in the checkpoint and {:?} in the model",
                info.name,
                saved.shape,
                tensor.dims()
            )),
            Some(_) => {}
        }
    });
    let unexpected = record.keys().filter(|name| !known.contains(*name));
    problems.extend(unexpected.map(|name| format!("`{name}` is not in the model")));
    if !problems.is_empty() {
        return Err(RecordError::Parameters { problems });
    }
    model.map(&mut |info, tensor| match record.get(info.name) {
        Some(saved) => saved.to_tensor(device).tracked_like(&tensor, info.trainable),
        None => tensor,
    });
    Ok(())
}
