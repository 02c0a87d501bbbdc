use burn::tensor::Tensor;
use oomph_core::{Account, charge};
use oomph_model::{AnyTensor, Pass, Stages, autodiff};

use super::{model_part::add, token_chunks::TokenChunks};
use crate::{
    EngineError, exhausted,
    layout::{DeviceSlot, Layout},
    ranks::{Gatherer, Weights},
    task::{DeviceTargets, Task},
};

/// A model to evaluate.
#[derive(Clone, Copy, Debug)]
pub struct EvaluatedModel<'a> {
    /// Its stages, or this rank's shards of them.
    pub stages: &'a Stages,
    /// Gathers the parameters of each stage while it computes, if they are sharded.
    pub gatherer: Option<&'a Gatherer>,
}

impl<'a> From<&'a Stages> for EvaluatedModel<'a> {
    fn from(stages: &'a Stages) -> Self {
        Self { stages, gatherer: None }
    }
}

impl EvaluatedModel<'_> {
    /// Gathers by stages, if parameters are sharded, and the model that they are gathered into.
    fn gathered(&self) -> Option<(Weights, Stages)> {
        let gatherer = self.gatherer?;
        charge(Account::Host, || {
            let stages = (0..self.stages.len()).map(|stage| stage..stage + 1).collect();
            Some((Weights::new(gatherer.clone(), stages, self.stages), self.stages.clone()))
        })
    }

    /// Takes part in the gathering of a batch of which this rank has no samples.
    ///
    /// # Errors
    /// If a rank or a device fails.
    pub fn pass_by(&self) -> Result<(), EngineError> {
        let Some((mut weights, mut model)) = self.gathered() else { return Ok(()) };
        weights.lend(&mut model)?;
        for stage in 0..model.len() {
            weights.gather(&mut model, stage, weights.after(stage), None)?;
            weights.divide(&mut model, stage, false);
        }
        Ok(())
    }
}

/// Runs the forward pass of the stages of `model` in order, and checks the memory limit after each.
///
/// `is_last` says that the stages end with the last stage of the model. Its output is widened to 32 bits.
///
/// # Errors
/// The first error of a stage, [`EngineError::Exhausted`] if memory runs out, [`EngineError::Device`] if the device
/// fails.
pub fn evaluate_stages<'a>(
    model: impl Into<EvaluatedModel<'a>>,
    input: AnyTensor,
    pass: &mut Pass,
    is_last: bool,
) -> Result<AnyTensor, EngineError> {
    let output = evaluate_with(model.into(), input, pass, |stages, stage, input, pass| {
        Ok(stages.forward_stage(stage, input, pass)?)
    })?;
    Ok(if is_last { output.widened(pass.policy().kernels) } else { output })
}

/// Runs the stages of `model`, the last one of which is that of the whole model, and computes the loss of a batch of this
/// [weight](Task::weight). The last stage and the loss are computed by `chunks`.
///
/// # Errors
/// Those of [`evaluate_stages`], and that of the task.
pub fn evaluate_in_chunks<'a>(
    model: impl Into<EvaluatedModel<'a>>,
    input: AnyTensor,
    pass: &mut Pass,
    chunks: &TokenChunks,
    task: &dyn Task,
    weight: f64,
) -> Result<Evaluated, EngineError> {
    evaluate_with(model.into(), input, pass, |stages, stage, input, pass| {
        let (mut loss, mut all_correct) = (None, None);
        for chunk in chunks.each() {
            let output = stages.forward_stage(stage, chunk.input(&input), pass)?;
            let output = output.widened(pass.policy().kernels);
            let of_chunk = compare_evaluated(task, &output, &chunk.targets, weight * chunk.share)?;
            // The task counts a chunk as one sample.
            let correct = of_chunk.correct.map(|correct| correct.mul_scalar(chunk.samples));
            add(&mut loss, Some(of_chunk.loss));
            add(&mut all_correct, correct);
            exhausted::check()?;
        }
        // A batch has a token.
        Ok(Evaluated { loss: loss.expect("a chunk"), correct: all_correct })
    })
}

/// Runs all stages of `model` but the last one, which `last` runs.
fn evaluate_with<T>(
    model: EvaluatedModel<'_>,
    input: AnyTensor,
    pass: &mut Pass,
    last: impl FnOnce(&Stages, usize, AnyTensor, &mut Pass) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let mut activation = input;
    // A model has a stage.
    let before_last = model.stages.len() - 1;
    let done = match model.gathered() {
        None => {
            model.stages.lend(pass);
            for stage in 0..before_last {
                pass.handover.set_followed(true);
                activation = model.stages.forward_stage(stage, activation, pass)?;
                exhausted::check()?;
            }
            pass.handover.set_followed(false);
            last(model.stages, before_last, activation, pass)?
        }
        // No stage needs the weights of the one before, which are divided by then.
        Some((mut weights, mut model)) => {
            weights.lend(&mut model)?;
            model.lend(pass);
            for stage in 0..before_last {
                weights.gather(&mut model, stage, weights.after(stage), None)?;
                activation = model.forward_stage(stage, activation, pass)?;
                exhausted::check()?;
                weights.divide(&mut model, stage, false);
            }
            weights.gather(&mut model, before_last, None, None)?;
            let done = last(&model, before_last, activation, pass)?;
            weights.divide_all(&mut model);
            done
        }
    };
    exhausted::check()?;
    Ok(done)
}

/// Runs the forward pass of a model on the devices of `layout`. `input` makes the input on the first device. `last` runs the stages
/// of the last device, from their input.
///
/// # Errors
/// The errors of [`evaluate_stages`] and of `last`.
pub fn evaluate_placed<T: Send>(
    layout: &Layout,
    model: EvaluatedModel<'_>,
    input: impl FnOnce(&DeviceSlot) -> AnyTensor + Send,
    pass: &mut Pass,
    last: impl FnOnce(&DeviceSlot, EvaluatedModel<'_>, AnyTensor, &mut Pass) -> Result<T, EngineError> + Send,
) -> Result<T, EngineError> {
    let slot = layout.first();
    let mut activation = slot.run(|| input(slot));
    exhausted::check()?;
    if !layout.is_split() {
        return slot.run_here(|| last(slot, model, activation, pass));
    }
    let mut parts = layout.slots().iter().zip(layout.split(model.stages.clone()));
    // A layout has a last device.
    let (last_slot, last_part) = parts.next_back().expect("a device with the last stage");
    for (slot, stages) in parts {
        let pass_here = &mut *pass;
        activation = slot.run(move || {
            let here = if slot.index == 0 { activation } else { activation.moved(&slot.plain()) };
            evaluate_stages(&stages, here, pass_here, false)
        })?;
    }
    last_slot.run(move || last(last_slot, (&last_part).into(), activation.moved(&last_slot.plain()), pass))
}

/// The loss of an evaluation batch, still on the device.
#[derive(Debug)]
pub struct Evaluated {
    /// The loss times the weight of the batch, `[1]`: by default the sum of the losses of the samples.
    pub loss: Tensor<1>,
    /// The number of correctly predicted samples, `[1]`, if the task counts them.
    pub correct: Option<Tensor<1>>,
}

/// Computes the loss of an evaluation batch of this [weight](Task::weight).
///
/// # Errors
/// The error of the task.
pub fn compare_evaluated(
    task: &dyn Task,
    output: &AnyTensor,
    targets: &DeviceTargets,
    weight: f64,
) -> Result<Evaluated, EngineError> {
    let loss = task.loss(output, targets)?.mul_scalar(weight as f32);
    let correct = task.correct(output, targets).map(autodiff::inner);
    Ok(Evaluated { loss: autodiff::inner(loss), correct })
}
