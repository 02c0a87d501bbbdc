use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Tensor;
use oomph_kernels::{AnyTensor, Kernels, added, differentiable, ranked};

use crate::{Policy, autodiff::inner};

/// An activation that begins a branch and is added to what the branch makes of it (He et al. 2016,
/// <https://arxiv.org/abs/1512.03385>).
///
/// Of [lean](Policy::lean) layers the gradient of the sum passes by the branch: the layer that begins the branch adds it to the gradient
/// of its input, in the same pass over memory.
pub(crate) struct Residual {
    pub(crate) input: Tensor<2>,
    pub(crate) gradient: PassedBy,
}

impl Residual {
    pub(crate) fn new(input: Tensor<2>) -> Self {
        Self { input, gradient: PassedBy::default() }
    }
}

/// The gradient of a sum, on its way from the end of a branch to its begin.
#[derive(Clone, Debug, Default)]
pub(crate) struct PassedBy(Arc<Mutex<Option<AnyTensor>>>);

impl PassedBy {
    pub(crate) fn put(&self, gradient: AnyTensor) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(gradient);
    }

    /// The gradient, once; none before the backward pass of the branch's end.
    pub(crate) fn take(&self) -> Option<AnyTensor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// An activation for both branches of a block. Backward adds their gradients, by all threads on the CPU.
pub(crate) fn forked(input: Tensor<4>, kernels: Kernels) -> [Tensor<4>; 2] {
    if !input.device().is_autodiff() {
        return [input.clone(), input];
    }
    let (plain, passed) = (inner(input.clone()), PassedBy::default());
    let of_second = passed.clone();
    let first = ranked::<4>(differentiable([input.into()], plain.clone().into(), move |gradient, _| {
        [Some(match passed.take() {
            Some(other) => added::<4>(ranked(gradient), ranked(other), kernels).into(),
            None => gradient,
        })]
    }));
    // It depends on the first, so that its gradient is there before.
    let second = differentiable([first.clone().into()], plain.into(), move |gradient, _| {
        of_second.put(gradient);
        [None]
    });
    [first, ranked(second)]
}

/// `[B, T, F]` with a vector added at each position, `[T, F]` of 32 bits. Backward of a lean sum keeps nothing; Burn's keeps both terms
/// where operations are recomputed.
pub(crate) fn positioned(input: Tensor<3>, positions: Tensor<2>, policy: Policy) -> Tensor<3> {
    if !policy.lean {
        return input + policy.narrow(positions).unsqueeze();
    }
    let shape = positions.dims();
    let sum = inner(input.clone()) + policy.narrow(inner(positions.clone())).unsqueeze();
    ranked(differentiable(
        [input.into(), positions.into()],
        sum.into(),
        move |gradient, [of_input, of_positions]| {
            let gradient = ranked::<3>(gradient);
            let over_batch = || policy.widen(gradient.clone()).sum_dim(0).reshape(shape);
            let of_positions = of_positions.then(|| over_batch().into());
            [of_input.then(|| gradient.into()), of_positions]
        },
    ))
}
