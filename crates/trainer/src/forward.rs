use oomph_model::{AnyTensor, Pass, Stages};

use crate::{TrainError, out_of_memory};

/// Runs the stages of `model` in order and looks at the limit after each: an allocator may not end a step, a stage's
/// boundary may.
///
/// # Errors
/// The first stage's error, and [`TrainError::OutOfMemory`].
pub(crate) fn forward(model: &Stages, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, TrainError> {
    let mut activation = input;
    for stage in 0..model.len() {
        activation = model.forward_stage(stage, activation, pass)?;
        out_of_memory::check()?;
    }
    Ok(activation)
}
