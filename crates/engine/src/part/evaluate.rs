use burn::tensor::Tensor;
use oomph_core::{Account, charge};
use oomph_model::{AnyTensor, Pass, Stages, autodiff};

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
    let model = model.into();
    let mut activation = input;
    match model.gathered() {
        None => {
            model.stages.lend(pass);
            for stage in 0..model.stages.len() {
                activation = model.stages.forward_stage(stage, activation, pass)?;
                exhausted::check()?;
            }
        }
        Some((mut weights, mut model)) => {
            weights.lend(&mut model)?;
            model.lend(pass);
            for stage in 0..model.len() {
                weights.gather(&mut model, stage, weights.after(stage), None)?;
                activation = model.forward_stage(stage, activation, pass)?;
                exhausted::check()?;
                weights.divide(&mut model, stage, false);
            }
            weights.divide_all(&mut model);
        }
    }
    Ok(if is_last { activation.widened(pass.policy().kernels) } else { activation })
}

/// Runs the forward pass of a model on the devices of `layout`. `input` makes the input on the first device. `last`
/// receives the output on the last device, and its result is returned.
///
/// # Errors
/// The errors of [`evaluate_stages`] and of `last`.
pub fn evaluate_placed<T: Send>(
    layout: &Layout,
    model: EvaluatedModel<'_>,
    input: impl FnOnce(&DeviceSlot) -> AnyTensor + Send,
    pass: &mut Pass,
    last: impl FnOnce(&DeviceSlot, AnyTensor) -> Result<T, EngineError> + Send,
) -> Result<T, EngineError> {
    let mut slot = layout.first();
    let mut activation = slot.run(|| input(slot));
    exhausted::check()?;
    if !layout.is_split() {
        let output = slot.run_here(|| evaluate_stages(model, activation, pass, true))?;
        return slot.run(|| last(slot, output));
    }
    let slots = layout.slots();
    for (index, stages) in layout.split(model.stages.clone()).into_iter().enumerate() {
        slot = &slots[index];
        let (pass_here, is_last) = (&mut *pass, index + 1 == slots.len());
        activation = slot.run(move || {
            let here = if index == 0 { activation } else { activation.moved(&slot.plain()) };
            evaluate_stages(&stages, here, pass_here, is_last)
        })?;
    }
    slot.run(|| last(slot, activation))
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
