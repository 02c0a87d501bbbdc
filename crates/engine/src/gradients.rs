use std::sync::{Mutex, PoisonError};

use oomph_core::{Account, charge};
use oomph_kernels::{
    Kernels,
    gradients::{Factor, scale_on_gpu},
};
use oomph_model::{AnyTensor, ModelError, Named};

/// Receives the gradients of a step, unscaled and before clipping: one call for each device that has parameters, or with
/// `memory.gradients = "release"` one for each segment of stages, in the order of backward.
pub type GradientHook = Box<dyn FnMut(&Named<AnyTensor>) -> Result<(), ModelError> + Send>;

/// Calls the hook of a training, which all its devices share. What the hook allocates is host memory.
///
/// # Errors
/// Those of the hook.
pub(crate) fn call_hook(hook: &Mutex<GradientHook>, gradients: &Named<AnyTensor>) -> Result<(), ModelError> {
    // A hook that panicked has ended the step.
    let mut hook = hook.lock().unwrap_or_else(PoisonError::into_inner);
    charge(Account::Host, || hook(gradients))
}

/// Adds the gradients of one more micro-batch to `sum`. A gradient that only one of both maps has stays as it is.
pub(crate) fn accumulate(sum: &mut Named<AnyTensor>, more: Named<AnyTensor>) {
    if sum.is_empty() {
        *sum = more;
        return;
    }
    for (name, gradient) in more {
        let total = match sum.remove(&name) {
            Some(so_far) => so_far.add(gradient),
            None => gradient,
        };
        sum.insert(name, total);
    }
}

/// Applies `change` to every gradient.
pub(crate) fn each(gradients: Named<AnyTensor>, change: impl Fn(AnyTensor) -> AnyTensor) -> Named<AnyTensor> {
    gradients.into_iter().map(|(name, gradient)| (name, change(gradient))).collect()
}

/// Every gradient times `factor`.
pub(crate) fn scaled(gradients: Named<AnyTensor>, factor: Factor, kernels: Kernels) -> Named<AnyTensor> {
    if kernels == Kernels::Gpu {
        let (names, tensors): (Vec<_>, Vec<_>) = gradients.into_iter().unzip();
        return names.into_iter().zip(scale_on_gpu(tensors, factor)).collect();
    }
    match factor {
        Factor::Number(number) => each(gradients, |gradient| gradient.scale(number)),
        Factor::Element(element) => each(gradients, |gradient| gradient.scale_by(element.clone())),
    }
}

/// All gradients, in the order of names.
pub(crate) fn listed(gradients: &Named<AnyTensor>) -> Vec<&AnyTensor> {
    charge(Account::Host, || gradients.values().collect())
}
