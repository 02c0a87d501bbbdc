use oomph_model::{AnyTensor, Named};

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
