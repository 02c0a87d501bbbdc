use oomph_model::{AnyTensor, Pass, Stages};

use crate::{
    TrainError, Watch, out_of_memory,
    parallel::{Place, chain::Chain},
};

/// Runs the stages of `model` in order and looks at the limit after each: an allocator may not end a step, a stage's
/// boundary may. Tells `watch` of the boundaries.
///
/// # Errors
/// The first stage's error, and [`TrainError::OutOfMemory`].
pub(crate) fn forward(
    model: &Stages,
    input: AnyTensor,
    pass: &mut Pass,
    watch: Option<&mut (dyn Watch + 'static)>,
) -> Result<AnyTensor, TrainError> {
    model.lend(pass);
    Ok(stages(model, input, pass, watch)?.widened(pass.policy()))
}

/// The same where the model is cut over several devices, each of which runs its part. `input` is made where the first part
/// lies, and `last` told of the output where the last one does.
pub(crate) fn forward_over<T: Send>(
    chain: &Chain,
    model: &Stages,
    input: impl FnOnce(&Place) -> AnyTensor + Send,
    pass: &mut Pass,
    last: impl FnOnce(&Place, AnyTensor) -> Result<T, TrainError> + Send,
) -> Result<T, TrainError> {
    let mut place = &chain.places[0]; // A chain has devices.
    let mut activation = place.run(|| input(place));
    for (index, part) in chain.cut(model.clone()).into_iter().enumerate() {
        place = &chain.places[index];
        let pass_here = &mut *pass;
        activation = place.run(move || {
            let here = if index == 0 { activation } else { activation.moved(&place.plain()) };
            stages(&part, here, pass_here, None)
        })?;
    }
    let policy = pass.policy();
    place.run(|| last(place, activation.widened(policy)))
}

fn stages(
    model: &Stages,
    input: AnyTensor,
    pass: &mut Pass,
    mut watch: Option<&mut (dyn Watch + 'static)>,
) -> Result<AnyTensor, TrainError> {
    let mut activation = input;
    for (stage, name) in model.names().enumerate() {
        activation = model.forward_stage(stage, activation, pass)?;
        out_of_memory::check()?;
        if let Some(watch) = &mut watch {
            watch.boundary(name);
        }
    }
    Ok(activation)
}
