use burn::tensor::{Device, Tensor};
use oomph_config::Clip;
use oomph_core::{Generator, Key};
use oomph_data::Batch;
use oomph_memory::{Account, charge};
use oomph_model::{Named, Pass, Stages, autodiff};

use crate::{Optimizer, Session, Task, TrainError, clip, gradients::accumulate, upload::upload};

/// One optimizer step at a time: micro-batches forward and backward, clipping, the optimizer.
#[derive(Debug)]
pub struct Stepper {
    /// The model, on the autodiff device.
    pub model: Stages,
    /// The optimizer with its state.
    pub optimizer: Optimizer,
    device: Device,
    key: Key,
    micro_batch: usize,
    clip: Option<Clip>,
}

/// What one step gave, still on the device: reading it waits for the device.
#[derive(Clone, Debug)]
pub struct StepOutcome {
    /// The mean loss over the samples, one element. `None` for a batch without samples.
    pub loss: Option<Tensor<1>>,
    /// How many samples the model was right about, one element, where the task tells.
    pub correct: Option<Tensor<1>>,
    /// Samples of the batch.
    pub samples: usize,
}

impl Stepper {
    /// A stepper with a new model and an optimizer without state.
    ///
    /// # Errors
    /// Where the model cannot be made.
    pub fn new(session: &Session) -> Result<Self, TrainError> {
        Ok(Self {
            model: session.build()?,
            optimizer: Optimizer::new(&session.config.optimizer),
            device: session.device.clone().autodiff(),
            key: Key::new(session.config.train.seed).with_name("step"),
            micro_batch: session.micro_batch(),
            clip: session.config.optimizer.clip,
        })
    }

    /// Trains on one batch. `step` names the randomness, `lr` is the learning rate.
    ///
    /// The gradient is that of the mean loss over the whole batch: each micro-batch weighs by its number of samples.
    /// Batch normalisation uses the statistics of each micro-batch.
    ///
    /// # Errors
    /// Where a stage cannot take its activation, or the task the output.
    pub fn step(
        &mut self,
        batch: Batch,
        step: usize,
        lr: f64,
        task: &dyn Task,
    ) -> Result<StepOutcome, TrainError> {
        let samples = batch.size;
        let mut outcome = StepOutcome { loss: None, correct: None, samples };
        if samples == 0 {
            return Ok(outcome);
        }
        let micro_batches = charge(Account::Host, || batch.split(self.micro_batch));
        let mut gradients = Named::new();
        for (index, micro_batch) in micro_batches.into_iter().enumerate() {
            let key = self.key.with(step as u64).with(index as u64);
            // For layers that draw from Burn's generator, such as its dropout: it too starts anew with every step, so
            // that a resumed run draws what an uninterrupted one does.
            self.device.seed(Generator::at(key.with_name("burn")).bits());
            let pass = Pass::train(key);
            let weight = micro_batch.size as f32 / samples as f32;
            let (loss, correct, more) = self.forward_backward(&micro_batch, weight, pass, task)?;
            accumulate(&mut gradients, more);
            outcome.loss = Some(sum(outcome.loss, loss));
            outcome.correct = correct.map(|correct| sum(outcome.correct.take(), correct));
        }
        if let Some(limit) = self.clip {
            gradients = clip(gradients, limit);
        }
        self.optimizer.step(lr, &mut self.model, gradients);
        Ok(outcome)
    }

    /// Weighted loss and number of right samples, off the graph, and gradients.
    #[allow(clippy::type_complexity)] // Three parts of one result, taken apart at once by the only caller.
    fn forward_backward(
        &mut self,
        batch: &Batch,
        weight: f32,
        mut pass: Pass,
        task: &dyn Task,
    ) -> Result<(Tensor<1>, Option<Tensor<1>>, Named<oomph_model::AnyTensor>), TrainError> {
        let (input, targets) = upload(batch, &self.device);
        let output = self.model.forward(input, &mut pass)?;
        self.model.apply(pass.into_updates());
        let loss = task.loss(&output, &targets)?;
        let correct = task.correct(&output, &targets).map(autodiff::inner);
        drop(output);
        // A weight of one changes no bit.
        let loss = if weight == 1.0 { loss } else { loss.mul_scalar(weight) };
        let plain = autodiff::inner(loss.clone());
        let gradients = autodiff::backward(loss, &self.model);
        Ok((plain, correct, gradients))
    }
}

fn sum(so_far: Option<Tensor<1>>, more: Tensor<1>) -> Tensor<1> {
    match so_far {
        Some(so_far) => so_far + more,
        None => more,
    }
}
