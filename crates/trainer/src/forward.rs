use oomph_model::{AnyTensor, Pass, Stages};

use crate::{TrainError, Watch, out_of_memory};

/// Runs the stages of `model` in order and looks at the limit after each: an allocator may not end a step, a stage's
/// boundary may. Tells `watch` of the boundaries.
///
/// # Errors
/// The first stage's error, and [`TrainError::OutOfMemory`].
pub(crate) fn forward(
    model: &Stages,
    input: AnyTensor,
    pass: &mut Pass,
    mut watch: Option<&mut (dyn Watch + 'static)>,
) -> Result<AnyTensor, TrainError> {
    model.lend(pass);
    let mut activation = input;
    for (stage, name) in model.names().enumerate() {
        activation = model.forward_stage(stage, activation, pass)?;
        out_of_memory::check()?;
        if let Some(watch) = &mut watch {
            watch.boundary(name);
        }
    }
    Ok(activation.widened(pass.policy()))
}
