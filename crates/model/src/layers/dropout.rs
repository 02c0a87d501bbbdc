use burn::{module::Module, tensor::Tensor};
use oomph_core::Mode;
use oomph_kernels::{DropoutMask, differentiable, dropped, dropped_onto, ranked};

use super::Residual;
use crate::{LayerKind, Pass, autodiff};

/// Dropout (Srivastava et al. 2014): in training each element becomes 0 with probability p, the rest is scaled by
/// 1/(1 − p); in evaluation nothing happens.
///
/// The mask is a function of the pass's key and the place in the model, so a recomputed stage drops the same elements.
/// A [lean](crate::Policy::lean) layer keeps no mask: backward draws it again.
#[derive(Module, Debug)]
pub struct Dropout {
    #[module(skip)]
    probability: f64,
}

impl Dropout {
    /// Drops with `probability`, from 0 up to but not including 1.
    pub fn new(probability: f64) -> Self {
        Self { probability }
    }

    /// Drops. Input and output have any one shape.
    pub fn forward<const D: usize>(&self, input: Tensor<D>, pass: &mut Pass) -> Tensor<D> {
        let dims = input.dims();
        pass.layer(LayerKind("Dropout"), &dims, &dims, 0);
        if !self.drops(pass) {
            return input;
        }
        let (mask, policy) = (self.mask(pass), pass.policy());
        if !policy.lean {
            let factors = mask.tensor(&input);
            return policy.narrow(policy.widen(input) * factors);
        }
        let output = dropped(autodiff::inner(input.clone()), &mask, policy.kernels);
        ranked(differentiable([input.into()], output.into(), move |gradient, _| {
            [Some(dropped::<D>(ranked(gradient), &mask, policy.kernels).into())]
        }))
    }

    /// Whether elements are dropped in this pass.
    pub(crate) fn drops(&self, pass: &Pass) -> bool {
        pass.mode() == Mode::Train && self.probability > 0.0
    }

    /// Drops elements of the end of a branch, and adds what the branch began with.
    pub(crate) fn forward_onto(&self, residual: Residual, change: Tensor<2>, pass: &mut Pass) -> Tensor<2> {
        let policy = pass.policy();
        if !policy.lean || !self.drops(pass) {
            return residual.input + self.forward(change, pass);
        }
        let dims = change.dims();
        pass.layer(LayerKind("Dropout"), &dims, &dims, 0);
        let mask = self.mask(pass);
        let Residual { input, gradient: passed } = residual;
        let [input, plain] = [input, change.clone()].map(autodiff::inner);
        let output = dropped_onto(input, plain, &mask, policy.kernels);
        ranked(differentiable([change.into()], output.into(), move |gradient, _| {
            passed.put(gradient.clone());
            [Some(dropped::<2>(ranked(gradient), &mask, policy.kernels).into())]
        }))
    }

    fn mask(&self, pass: &Pass) -> DropoutMask {
        DropoutMask {
            generator: pass.generator(),
            probability: self.probability as f32,
            scale: (1.0 / (1.0 - self.probability)) as f32,
        }
    }
}
