use burn::tensor::{Device, TensorData};
use oomph_model::AnyTensor;

use crate::record_error::RecordError;

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
