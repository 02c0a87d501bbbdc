//! The backends that a tensor can be of, for code that reaches below Burn's dispatch.

use burn::tensor::{GradientCheckpointingStrategy, Int, Tensor};
use burn_autodiff::{
    Autodiff,
    checkpoint::strategy::{BalancedCheckpointing, NoCheckpointing},
};
use burn_backend::{
    Backend, BackendTypes, DType, TensorMetadata,
    tensor::{FloatTensor, IntTensor},
};
use burn_capture::CaptureBackend;
use burn_flex::Flex;

use crate::any_tensor::AnyTensor;

/// A float tensor in the autodiff graph of a backend.
pub(crate) type Tracked<B> = FloatTensor<Autodiff<B>>;

/// A backend without autodiff. It converts between tensors and its primitives.
pub(crate) trait Plain: Backend {
    /// The primitive of a plain float tensor; `None` if the tensor is of another backend.
    fn primitive(tensor: &AnyTensor) -> Option<FloatTensor<Self>>;

    /// The primitive of a float tensor on the autodiff device; `None` if the tensor is of another backend.
    fn tracked(tensor: &AnyTensor) -> Option<Tracked<Self>>;

    /// The primitive of an integer tensor; `None` if the tensor is of another backend.
    fn integers(tensor: &Tensor<1, Int>) -> Option<IntTensor<Self>>;

    /// The plain tensor of a primitive, of floats or of integers.
    fn tensor(primitive: FloatTensor<Self>) -> AnyTensor;

    /// The tensor of a primitive on the autodiff device. It combines only with tensors of the same checkpointing strategy.
    fn tracked_tensor(primitive: Tracked<Self>, strategy: GradientCheckpointingStrategy) -> AnyTensor;
}

macro_rules! plain {
    ($backend:ty) => {
        impl Plain for $backend {
            fn primitive(tensor: &AnyTensor) -> Option<FloatTensor<Self>> {
                erased(tensor)?.try_into_primitive::<Self>().ok()
            }

            fn tracked(tensor: &AnyTensor) -> Option<Tracked<Self>> {
                erased(tensor)?.try_into_primitive::<Autodiff<Self>>().ok()
            }

            fn integers(tensor: &Tensor<1, Int>) -> Option<IntTensor<Self>> {
                tensor.clone().try_into_primitive::<Self>().ok()
            }

            fn tensor(primitive: FloatTensor<Self>) -> AnyTensor {
                match primitive.dtype() {
                    DType::U32 | DType::U8 => {
                        let tensor = Tensor::<1, Int>::from_primitive::<Self>(primitive).into_bridge();
                        AnyTensor::from_parts(tensor.shape().num_dims(), tensor)
                    }
                    _ => from_erased(Tensor::from_primitive::<Self>(primitive)),
                }
            }

            fn tracked_tensor(
                primitive: Tracked<Self>,
                strategy: GradientCheckpointingStrategy,
            ) -> AnyTensor {
                from_erased(match strategy {
                    GradientCheckpointingStrategy::Balanced => {
                        Tensor::from_primitive::<Autodiff<Self, BalancedCheckpointing>>(primitive)
                    }
                    GradientCheckpointingStrategy::Disabled => {
                        Tensor::from_primitive::<Autodiff<Self, NoCheckpointing>>(primitive)
                    }
                })
            }
        }
    };
}

plain!(Flex);
plain!(CaptureBackend);
#[cfg(feature = "gpu")]
plain!(oomph_gpu_kernels::Gpu);

/// The float tensor as one of rank 1, whatever its rank; `None` for integers. Burn's primitives know their rank by
/// their shape alone.
fn erased(tensor: &AnyTensor) -> Option<Tensor<1>> {
    tensor.is_float().then(|| Tensor::from_bridge(tensor.clone().into_parts().1))
}

/// The inverse of [`erased`].
fn from_erased(tensor: Tensor<1>) -> AnyTensor {
    let bridge = tensor.into_bridge();
    AnyTensor::from_parts(bridge.shape().num_dims(), bridge)
}

/// The primitive of a plain tensor of floats or integers; `None` if the tensor is of another backend.
pub(crate) fn primitive_on<B>(tensor: &AnyTensor) -> Option<FloatTensor<B>>
where
    B: Plain + BackendTypes<IntTensorPrimitive = FloatTensor<B>>,
{
    if tensor.is_float() {
        return B::primitive(tensor);
    }
    B::integers(&Tensor::<1, Int>::from_bridge(tensor.clone().into_parts().1))
}

/// The result of `$function::<B>($arguments)` for the first backend `B` with which it is `Some`.
macro_rules! first_backend {
    ($function:ident $(::<$generic:ident>)? ($($argument:expr),* $(,)?)) => {{
        let found = $function::<burn_flex::Flex $(, $generic)?>($($argument),*)
            .or_else(|| $function::<burn_capture::CaptureBackend $(, $generic)?>($($argument),*));
        #[cfg(feature = "gpu")]
        let found = found.or_else(|| $function::<oomph_gpu_kernels::Gpu $(, $generic)?>($($argument),*));
        found
    }};
}
pub(crate) use first_backend;
