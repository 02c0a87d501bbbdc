//! Parameters and optimizer state on the host, as checkpoints hold them.

use std::collections::{BTreeMap, BTreeSet};

use burn::tensor::{Device, TensorData};
use oomph_kernels::packed::StoredMoment;
use oomph_model::{AnyTensor, Carried, DeviceError, ModelError, Named, Stages};
use serde::{Deserialize, Serialize};

/// A tensor of 32-bit floats in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// The size of each dimension.
    pub shape: Vec<usize>,
    /// All elements in row-major order.
    pub values: Vec<f32>,
}

impl HostTensor {
    /// Copies a tensor from its device to the host.
    ///
    /// # Errors
    /// If the device fails.
    pub fn from_tensor(tensor: &AnyTensor) -> Result<Self, RecordError> {
        Ok(Self { shape: tensor.dims(), values: tensor.to_host()? })
    }

    /// Copies the tensor to a device.
    pub fn to_tensor(&self, device: &Device) -> AnyTensor {
        AnyTensor::floats(self.values.clone(), &self.shape, device)
    }

    /// Converts from Burn's container; `name` names the tensor in the error.
    ///
    /// # Errors
    /// [`RecordError::NotFloats`] if the elements are not 32-bit floats.
    pub fn from_data(name: &str, data: TensorData) -> Result<Self, RecordError> {
        let shape = data.shape.to_vec();
        let values = data.try_to_vec().map_err(|_| RecordError::NotFloats { name: name.to_owned() })?;
        Ok(Self { shape, values })
    }

    /// Converts to Burn's container.
    pub fn into_data(self) -> TensorData {
        TensorData::new(self.values, self.shape)
    }
}

/// A tensor of optimizer state with 8 or 16 bits an element, in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedTensor {
    /// The size of each dimension: those of the parameter.
    pub shape: Vec<usize>,
    /// All elements in row-major order.
    pub moment: StoredMoment,
}

impl PackedTensor {
    /// The bytes of its elements in memory.
    pub fn bytes(&self) -> usize {
        match &self.moment {
            StoredMoment::Bf16(values) => size_of_val(&values[..]),
            StoredMoment::Int8 { codes, scales } => size_of_val(&codes[..]) + size_of_val(&scales[..]),
        }
    }

    /// Whether all its floats are finite.
    pub fn is_finite(&self) -> bool {
        match &self.moment {
            StoredMoment::Bf16(values) => values.iter().all(|value| value.is_finite()),
            StoredMoment::Int8 { scales, .. } => scales.iter().all(|scale| scale.is_finite()),
        }
    }
}

/// Optimizer state on the host. Its leaves are named `<parameter>.<field>`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptimizerRecord {
    /// Leaves that are tensors of 32-bit floats.
    pub tensors: Named<HostTensor>,
    /// Leaves that are packed.
    pub packed: Named<PackedTensor>,
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
    model.try_visit(|info, tensor| -> Result<(), RecordError> {
        record.insert(info.name.to_owned(), HostTensor::from_tensor(&tensor)?);
        Ok(())
    })?;
    Ok(record)
}

/// Copies carried state to the host.
///
/// # Errors
/// If the device fails.
pub fn carried_record(carried: &Carried) -> Result<Named<HostTensor>, RecordError> {
    let tensors = carried.tensors().iter();
    tensors.map(|(name, tensor)| Ok((name.clone(), HostTensor::from_tensor(tensor)?))).collect()
}

/// Copies recorded carried state to `device`.
pub fn restored_carried(record: &Named<HostTensor>, device: &Device) -> Carried {
    record.iter().map(|(name, tensor)| (name.clone(), tensor.to_tensor(device))).collect()
}

/// Checks recorded carried state against `shapes`, those of the model for a batch of any size. Nothing may be carried
/// either.
///
/// # Errors
/// [`RecordError::Contradiction`] with the first state that does not fit.
pub fn check_carried(record: &Named<HostTensor>, shapes: &Named<Vec<usize>>) -> Result<(), RecordError> {
    let batch = record.values().find_map(|tensor| tensor.shape.first().copied()).unwrap_or(1);
    let names: BTreeSet<_> = record.keys().chain(shapes.keys().filter(|_| !record.is_empty())).collect();
    for name in names {
        let found = record.get(name).map(|tensor| &tensor.shape);
        let expected = shapes.get(name).map(|shape| {
            let mut shape = shape.clone();
            shape.iter_mut().take(1).for_each(|first| *first = batch);
            shape
        });
        if found != expected.as_ref() {
            let shown = |shape: Option<&Vec<usize>>| shape.map_or("nothing".into(), |it| format!("{it:?}"));
            return Err(RecordError::Contradiction {
                name: name.clone(),
                found: shown(found),
                expected: shown(expected.as_ref()),
            });
        }
    }
    Ok(())
}

/// Copies recorded values into a model on `device`. Each recorded tensor is dropped once it is copied.
///
/// # Errors
/// [`RecordError::Parameters`] if names or shapes differ. The model is then unchanged.
pub fn restore_model(
    model: &mut Stages,
    mut record: Named<HostTensor>,
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
    model.map(&mut |info, tensor| match record.remove(info.name) {
        Some(saved) => saved.to_tensor(device).tracked_like(&tensor, info.trainable),
        None => tensor,
    });
    Ok(())
}

/// An error of recorded tensors.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The record belongs to another model.
    #[error("the checkpoint does not fit the model: {}", list(.problems))]
    Parameters {
        /// One sentence for each parameter that is missing, unexpected or of another shape.
        problems: Vec<String>,
    },
    /// The record belongs to another optimizer.
    #[error("the checkpoint has no state of this optimizer for parameter `{parameter}`")]
    OptimizerState {
        /// The first parameter without state.
        parameter: String,
    },
    /// A value of the record does not fit the model, or the steps done.
    #[error("the checkpoint does not fit the model: for `{name}` it has {found}, expected {expected}")]
    Contradiction {
        /// The name of the value.
        name: String,
        /// The value, or its shape.
        found: String,
        /// The value that fits, or its shape.
        expected: String,
    },
    /// The elements of a tensor are not 32-bit floats.
    #[error("`{name}` is not a tensor of 32-bit floats")]
    NotFloats {
        /// The name of the tensor.
        name: String,
    },
    /// An element of a tensor is infinite or not a number.
    #[error("`{name}` has a value that is infinite or not a number")]
    NotFinite {
        /// The name of the tensor.
        name: String,
    },
    /// The bytes are not a safetensors file.
    #[error("not a safetensors file: {reason}")]
    Malformed {
        /// The reason.
        reason: String,
    },
    /// The device failed while the tensors were read.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl From<DeviceError> for RecordError {
    fn from(error: DeviceError) -> Self {
        Self::Model(error.into())
    }
}

impl RecordError {
    /// A command or a setting that may fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Parameters { .. } | Self::OptimizerState { .. } | Self::Contradiction { .. } => {
                Some("use `[model]` and `[optimizer]` of the `config.toml` in the checkpoint".into())
            }
            _ => None,
        }
    }
}

/// The first five problems, and the number of others.
fn list(problems: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = problems[..problems.len().min(SHOWN)].join("; ");
    match problems.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carried_state_of_another_shape_or_name_is_refused() {
        let tensor =
            |shape: &[usize]| HostTensor { shape: shape.to_vec(), values: vec![0.0; shape.iter().product()] };
        let shapes: Named<Vec<usize>> = [("cell".into(), vec![1, 4]), ("hidden".into(), vec![1, 4])].into();
        let checked = |states: &[(&str, &[usize])]| {
            let states = states.iter().map(|(name, shape)| ((*name).to_owned(), tensor(shape)));
            check_carried(&states.collect(), &shapes)
        };
        checked(&[]).expect("nothing is carried before the first step");
        checked(&[("cell", &[7, 4]), ("hidden", &[7, 4])]).expect("a batch of 7");
        for (name, states) in [
            ("hidden", &[("cell", &[7, 4][..])][..]),
            ("hidden", &[("cell", &[7, 4]), ("hidden", &[6, 4])]),
            ("cell", &[("cell", &[]), ("hidden", &[7, 4])]),
            ("cell", &[("cell", &[4, 7]), ("hidden", &[4, 4])]),
            ("other", &[("cell", &[7, 4]), ("hidden", &[7, 4]), ("other", &[7, 4])]),
        ] {
            match checked(states) {
                Err(RecordError::Contradiction { name: found, .. }) => assert_eq!(found, name),
                other => panic!("{states:?}: {other:?}"),
            }
        }
    }
}
