//! Tensors that lie in host memory while their device does without them.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_capture::CaptureBackend;
use oomph_core::{Account, charge};

use crate::{
    any_tensor::{AnyTensor, by_rank},
    backends::primitive_on,
    host::DeviceError,
};

/// A plain tensor that was copied to host memory, and whose memory on the device is free.
///
/// On the CPU, too, it is a copy: one whose bytes are charged to the host account instead of the device's. A tensor of a capture
/// device has no values, so its copy is a shape without memory.
///
/// ```
/// use burn::tensor::Device;
/// use oomph_kernels::{AnyTensor, offload::Offloaded};
///
/// let device = Device::flex();
/// let away = Offloaded::new(AnyTensor::floats(vec![1.0, 2.0], &[2], &device)).expect("the CPU does not fail");
/// assert_eq!(away.bytes(), 8);
/// assert_eq!(away.onto_device().to_host().expect("the CPU does not fail"), [1.0, 2.0]);
/// ```
#[derive(Debug)]
pub struct Offloaded {
    copy: AnyTensor,
    device: Device,
    is_recorded: bool,
}

impl Offloaded {
    /// Copies a plain tensor to host memory. Waits until the device has computed it.
    ///
    /// # Errors
    /// The device's own error, such as one left by an earlier kernel.
    pub fn new(tensor: AnyTensor) -> Result<Self, DeviceError> {
        let (device, is_recorded) = (tensor.device(), tensor.is_recorded());
        Ok(Self { copy: tensor.into_host_memory()?, device, is_recorded })
    }

    /// Copies it back to its device, and frees the host's memory.
    pub fn onto_device(self) -> AnyTensor {
        self.copy.from_host_memory(&self.device, self.is_recorded)
    }

    /// Bytes in host memory.
    pub fn bytes(&self) -> u64 {
        self.copy.bytes()
    }
}

impl AnyTensor {
    /// Whether a plain tensor is of a capture device.
    pub fn is_recorded(&self) -> bool {
        primitive_on::<CaptureBackend>(self).is_some()
    }

    /// Bytes of its elements.
    pub fn bytes(&self) -> u64 {
        (self.elements() * self.dtype().size()) as u64
    }

    /// A copy in host memory, charged to the host account; of a tensor of a capture device, a shape without memory. Frees this
    /// tensor if nobody else holds it.
    ///
    /// # Errors
    /// The device's own error, such as one left by an earlier kernel.
    pub fn into_host_memory(self) -> Result<Self, DeviceError> {
        charge(Account::Host, || {
            if self.is_recorded() {
                let blank = blank(&self.dims(), self.dtype());
                left_device(self);
                return Ok(blank);
            }
            let data = self.into_data()?;
            // The data of a tensor on the CPU is the tensor's own memory.
            Ok(of_data(TensorData::clone(&data), &Device::flex()))
        })
    }

    /// A copy on `device` of a tensor in host memory, charged to this thread's account. `is_recorded` says whether it is a capture
    /// device: there the copy is an allocation.
    #[must_use]
    #[allow(clippy::wrong_self_convention)] // It consumes the copy: the host's memory is freed.
    pub fn from_host_memory(self, device: &Device, is_recorded: bool) -> Self {
        if is_recorded {
            return arrived(&self.dims(), self.dtype(), device);
        }
        let (shape, elements) = (self.dims(), self.elements());
        // The CPU does not fail.
        let data = self.into_data().expect("host memory is readable");
        // The CPU device would keep the host's memory. A GPU reads it once.
        let data = if *device == Device::flex() { TensorData::clone(&data) } else { data };
        // A GPU pads the rows of data with several dimensions.
        let tensor = of_data(TensorData { shape: [elements].into(), ..data }, device);
        if tensor.is_float() { tensor.shaped(&shape) } else { tensor }
    }
}

/// Shows in a recording that a tensor lives until now, when its copy leaves the device.
pub fn left_device(tensor: AnyTensor) {
    if tensor.elements() == 0 {
        return;
    }
    if tensor.is_float() {
        drop(tensor.rows(0..1));
    } else {
        drop(Tensor::<1, Int>::from_bridge(tensor.into_parts().1).narrow(0, 0, 1));
    }
}

/// A blank for data that comes from host memory to a capture device: the backend adopts its storage, so it is recorded as one
/// allocation. Zeros are two for a moment.
pub fn arrived(shape: &[usize], dtype: DType, device: &Device) -> AnyTensor {
    let elements = shape.iter().product::<usize>();
    match dtype {
        DType::U32 => Tensor::<1, Int>::ones([elements], (device, dtype)).into(),
        _ => AnyTensor::from(Tensor::<1>::ones([elements], (device, dtype))).shaped(shape),
    }
}

/// A tensor of floats, or of words of 32 bits.
fn of_data(data: TensorData, device: &Device) -> AnyTensor {
    match data.dtype {
        DType::U32 => Tensor::<1, Int>::from_data(data, (device, DType::U32)).into(),
        _ => AnyTensor::from_data(data, device),
    }
}

/// A tensor of that shape whose elements are one number in host memory.
fn blank(shape: &[usize], dtype: DType) -> AnyTensor {
    let host = Device::flex();
    match dtype {
        DType::U32 => {
            Tensor::<1, Int>::zeros([1], (&host, dtype)).expand([shape.iter().product::<usize>()]).into()
        }
        _ => by_rank!(shape.len(), D => {
            let one = Tensor::<1>::zeros([1], (&host, dtype));
            // The rank is the number of sizes.
            let shape = <[usize; D]>::try_from(shape).expect("the shape has D sizes");
            one.expand::<D, _>(shape).into()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_tensor::with_rank;

    #[test]
    fn what_comes_back_has_every_bit() {
        let device = Device::flex();
        let floats = AnyTensor::floats(vec![1.5, f32::MIN_POSITIVE, -0.0, 3.25, 7.0, 1e30], &[2, 3], &device);
        let words =
            Tensor::<1, Int>::from_data(TensorData::new(vec![u32::MAX, 7], [2]), (&device, DType::U32));
        let halves = with_rank!(floats.clone(), tensor => AnyTensor::from(tensor.cast(DType::BF16)));
        for tensor in [floats, halves, words.into()] {
            let away = Offloaded::new(tensor.clone()).expect("the CPU does not fail");
            assert_eq!(away.bytes(), tensor.bytes());
            let back = away.onto_device();
            assert_eq!((back.dims(), back.dtype()), (tensor.dims(), tensor.dtype()));
            let data = |tensor: AnyTensor| tensor.into_data().expect("the CPU does not fail");
            assert_eq!(data(back).as_bytes(), data(tensor).as_bytes());
        }
    }

    #[test]
    fn a_blank_has_a_shape_and_no_memory() {
        for shape in [&[5][..], &[4, 1000, 1000]] {
            let blank = blank(shape, DType::F32);
            assert_eq!(blank.dims(), shape);
            assert_eq!(blank.bytes(), 4 * shape.iter().product::<usize>() as u64);
            assert!(!blank.is_part(), "{shape:?} is no part of something larger");
        }
        assert_eq!(blank(&[1 << 40], DType::U32).elements(), 1 << 40, "a terabyte would not be there");
    }
}
