//! The tensors of an optimizer's state.

use burn::tensor::TensorData;
use burn_optim::DynState;
use oomph_model::AnyTensor;

/// What becomes of a tensor of a state.
pub(crate) type Change<'a> = dyn FnMut(AnyTensor) -> AnyTensor + 'a;

/// Changes the tensors of a parameter's state, each by the given function.
pub(crate) type ChangeState = fn(DynState, &mut Change<'_>) -> DynState;

/// A copy in host memory.
///
/// # Panics
/// Panics if the device fails: Burn's optimizers have no errors either.
pub(crate) fn put_away(tensor: AnyTensor) -> AnyTensor {
    // The engine catches it, and reports that the device failed.
    tensor.into_host_memory().unwrap_or_else(|error| panic!("{error}"))
}

/// Its values, for a record.
///
/// # Panics
/// Panics if the device fails: Burn's trait has no errors.
pub(crate) fn data(tensor: &AnyTensor) -> TensorData {
    // The engine catches it, and reports that the device failed.
    tensor.clone().into_data().unwrap_or_else(|error| panic!("{error}"))
}
