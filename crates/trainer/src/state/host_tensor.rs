use burn::tensor::{Device, TensorData};
use oomph_model::AnyTensor;

use super::StateError;

/// A tensor of 32-bit floats in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// The size of each dimension.
    pub shape: Vec<usize>,
    /// All elements in row-major order.
    pub values: Vec<f32>,
}

impl HostTensor {
    /// Copies a tensor from its device.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn from_tensor(tensor: &AnyTensor) -> Result<Self, StateError> {
        Ok(Self { shape: tensor.dims(), values: tensor.to_host()? })
    }

    /// Copies to a device.
    pub fn to_tensor(&self, device: &Device) -> AnyTensor {
        AnyTensor::floats(self.values.clone(), &self.shape, device)
    }

    /// The same values from Burn's container.
    pub(crate) fn from_data(name: &str, data: TensorData) -> Result<Self, StateError> {
        let shape = data.shape.to_vec();
        let values = data.try_to_vec().map_err(|_| StateError::NotFloats { name: name.to_owned() })?;
        Ok(Self { shape, values })
    }

    pub(crate) fn into_data(self) -> TensorData {
        TensorData::new(self.values, self.shape)
    }
}
