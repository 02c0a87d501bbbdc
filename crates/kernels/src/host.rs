//! Tensors to host memory and back.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::{
    any_tensor::{AnyTensor, with_rank},
    graph,
};

/// A device failed, maybe in a kernel that was started earlier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device failed: {reason}")]
pub struct DeviceError {
    /// The device's own words.
    pub reason: String,
}

impl DeviceError {
    fn of(error: &impl std::fmt::Debug) -> Self {
        Self { reason: format!("{error:?}") }
    }
}

impl AnyTensor {
    /// The elements of a tensor in host memory, in their own format: for floats the inverse of
    /// [`from_data`](Self::from_data).
    ///
    /// # Errors
    /// The device's own error, such as one left by an earlier kernel.
    pub fn into_data(self) -> Result<TensorData, DeviceError> {
        let data = self.unread_data()?;
        // A GPU's data is read at its first use. A read that fails there panics.
        data.bytes.read(Default::default()).map_err(|error| DeviceError::of(&error))?;
        Ok(data)
    }

    fn unread_data(self) -> Result<TensorData, DeviceError> {
        if !self.is_float() {
            let integers = Tensor::<1, Int>::from_bridge(self.into_parts().1);
            return integers.try_into_data().map_err(|error| DeviceError::of(&error));
        }
        with_rank!(self, tensor => graph::inner(tensor).try_into_data())
            .map_err(|error| DeviceError::of(&error))
    }

    /// All elements of a float tensor in host memory, in row-major order.
    ///
    /// # Errors
    /// The device's own error, such as one left by an earlier kernel.
    pub fn to_host(&self) -> Result<Vec<f32>, DeviceError> {
        let data = self.clone().into_data()?;
        data.convert::<f32>().try_to_vec().map_err(|error| DeviceError::of(&error))
    }

    /// A copy on `device`, which may be the tensor's own; the copy is charged to the calling thread. A tensor of a capture
    /// device is returned as it is.
    ///
    /// # Panics
    /// Panics if the device of the tensor failed.
    #[must_use]
    pub fn moved(self, device: &Device) -> Self {
        if !self.is_float() {
            return self;
        }
        match self.clone().unread_data() {
            Ok(data) => Self::from_data(data.clone(), device),
            Err(_) => self,
        }
    }
}
