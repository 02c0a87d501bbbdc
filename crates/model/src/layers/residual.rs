use burn::tensor::Tensor;
use oomph_kernels::{differentiable, ranked};

use crate::{Policy, autodiff::inner};

/// The sum of an activation and what a part of a block makes of it (He et al. 2016, <https://arxiv.org/abs/1512.03385>).
///
/// Backward of a [lean](crate::Policy::lean) sum keeps nothing. Burn's keeps both terms where operations are recomputed.
pub(crate) fn residual<const D: usize>(input: Tensor<D>, change: Tensor<D>, policy: Policy) -> Tensor<D> {
    if !policy.lean {
        return input + change;
    }
    let sum = inner(input.clone()) + inner(change.clone());
    ranked(differentiable([input.into(), change.into()], sum.into(), |gradient, [of_input, of_change]| {
        [of_input.then(|| gradient.clone()), of_change.then_some(gradient)]
    }))
}

/// `[B, T, F]` with a vector added at each position, `[T, F]` of 32 bits. Backward keeps nothing, as that of [`residual`].
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
