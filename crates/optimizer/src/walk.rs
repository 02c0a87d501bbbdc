//! Walks through the parameters that have gradients.

use std::ops::Bound::{Included, Unbounded};

use oomph_core::scope;
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Named, Stages, map_stages};

/// Of each stage, whether it has a gradient. Where gradients are released, each step is about few stages, and a walk through all
/// parameters takes a GPU's host longer than the step.
pub(crate) fn stages_of(gradients: &Named<AnyTensor>, model: &Stages) -> Vec<bool> {
    let has_gradient = |stage| names_of(gradients, stage).next().is_some();
    charge(Account::Host, || model.names().map(has_gradient).collect())
}

/// The names in `all` that begin with `prefix` and a point: the gradients of a stage, or the state of a parameter.
pub fn names_of<'a, T>(all: &'a Named<T>, prefix: &'a str) -> impl Iterator<Item = &'a String> {
    let behind = all.range::<str, _>((Included(prefix), Unbounded)).map(|(name, _)| name);
    let alike = behind.take_while(move |name| name.starts_with(prefix));
    alike.filter(move |name| name[prefix.len()..].starts_with('.'))
}

/// Updates every parameter that has a gradient by `step`, one after the other. It takes a parameter off the autodiff graph, its
/// gradient and its state, and gives the new ones. `states` are by parameter name.
pub(crate) fn step_each<S>(
    states: &mut Named<S>,
    model: &mut Stages,
    mut gradients: Named<AnyTensor>,
    mut step: impl FnMut(AnyTensor, AnyTensor, Option<S>) -> (AnyTensor, Option<S>),
) {
    let stages = stages_of(&gradients, model);
    map_stages(model, |stage| stages[stage], &mut |info, parameter| {
        let Some(gradient) = gradients.remove(info.name) else { return parameter };
        let _scope = scope(info.name);
        let before = parameter.device().gradient_checkpointing_strategy();
        let (parameter, state) = step(parameter.inner(), gradient, states.remove(info.name));
        if let Some(state) = state {
            // The name is host memory; the state is on the device.
            states.insert(charge(Account::Host, || info.name.to_owned()), state);
        }
        parameter.tracked_as(true, before)
    });
}
