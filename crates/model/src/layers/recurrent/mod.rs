mod cell;
mod gru;
mod input;
mod lean;
mod lstm;
mod onnx;
mod run;

use burn::tensor::Tensor;
use oomph_kernels::{differentiable, place_steps, ranked, zeros};

use crate::{Policy, autodiff};

pub use gru::Gru;
pub(crate) use input::{looked_up, multiplies_tokens, outnumber};
pub use lstm::{Lstm, LstmState};

/// The last time step, `[B, U]`, of `[B, T, U]`. Backward keeps nothing.
///
/// Its gradient is one tensor of zeros with that step in it; Burn's slices allocate three for a moment.
pub fn last_step(sequence: Tensor<3>, policy: Policy) -> Tensor<2> {
    let dims @ [batch, steps, units] = sequence.dims();
    let last = |sequence: Tensor<3>| sequence.narrow(1, steps - 1, 1).reshape([batch, units]);
    if !policy.lean {
        return last(sequence);
    }
    let (kernels, dtype) = (policy.kernels, sequence.dtype());
    let output = last(autodiff::inner(sequence.clone()));
    ranked(differentiable([sequence.into()], output.into(), move |gradient, _| {
        let gradient = ranked::<2>(gradient).reshape([batch, 1, units]);
        let mut all = zeros(dims, dtype, gradient.clone(), kernels);
        place_steps(&mut all, gradient, steps - 1, kernels);
        [Some(all.into())]
    }))
}
