//! The backends that tensors can be of, where code has to reach below Burn's dispatch.

use burn::tensor::{GradientCheckpointingStrategy, Int, Tensor};
use burn_autodiff::{
    Autodiff,
    checkpoint::strategy::{BalancedCheckpointing, NoCheckpointing},
};
use burn_backend::{
    Backend,
    tensor::{FloatTensor, IntTensor},
};
use burn_capture::CaptureBackend;
use burn_flex::Flex;

use crate::AnyTensor;

/// A float tensor in the autodiff graph of a backend.
pub(crate) type Tracked<B> = FloatTensor<Autodiff<B>>;

/// A backend without autodiff whose primitives are told from tensors and made tensors again.
pub(crate) trait Plain: Backend {
    /// The primitive of a plain float tensor; `None` where it is of another backend.
    fn primitive(tensor: &AnyTensor) -> Option<FloatTensor<Self>>;

    /// The primitive of a float tensor on the autodiff device; `None` where it is of another backend.
    fn tracked(tensor: &AnyTensor) -> Option<Tracked<Self>>;

    /// The primitive of integers; `None` where they are of another backend.
    fn integers(tensor: &Tensor<1, Int>) -> Option<IntTensor<Self>>;

    /// The plain tensor of a primitive.
    fn tensor(primitive: FloatTensor<Self>) -> AnyTensor;

    /// The tensor on the autodiff device. It goes with tensors of the same checkpointing strategy alone.
    fn tracked_tensor(primitive: Tracked<Self>, strategy: GradientCheckpointingStrategy) -> AnyTensor;
}

macro_rules! plain {
    ($backend:ty) => {
        impl Plain for $backend {
            fn primitive(tensor: &AnyTensor) -> Option<FloatTensor<Self>> {
                tensor.erased()?.try_into_primitive::<Self>().ok()
            }

            fn tracked(tensor: &AnyTensor) -> Option<Tracked<Self>> {
                tensor.erased()?.try_into_primitive::<Autodiff<Self>>().ok()
            }

            fn integers(tensor: &Tensor<1, Int>) -> Option<IntTensor<Self>> {
                tensor.clone().try_into_primitive::<Self>().ok()
            }

            fn tensor(primitive: FloatTensor<Self>) -> AnyTensor {
                AnyTensor::from_erased(Tensor::from_primitive::<Self>(primitive))
            }

            fn tracked_tensor(
                primitive: Tracked<Self>,
                strategy: GradientCheckpointingStrategy,
            ) -> AnyTensor {
                AnyTensor::from_erased(match strategy {
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
#[cfg(feature = "cuda")]
plain!(burn_cuda::Cuda);

/// The result of `$function::<B>($arguments)` for the first backend `B` that gives one.
macro_rules! first_backend {
    ($function:ident $(::<$generic:ident>)? ($($argument:expr),* $(,)?)) => {{
        let found = $function::<burn_flex::Flex $(, $generic)?>($($argument),*)
            .or_else(|| $function::<burn_capture::CaptureBackend $(, $generic)?>($($argument),*));
        #[cfg(feature = "cuda")]
        let found = found.or_else(|| $function::<burn_cuda::Cuda $(, $generic)?>($($argument),*));
        found
    }};
}
pub(crate) use first_backend;
