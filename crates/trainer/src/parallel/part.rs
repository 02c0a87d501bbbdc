use std::{collections::BTreeMap, ops::Range};

use burn::tensor::Tensor;
use oomph_core::{Account, Key, Phase, charge, phase};
use oomph_model::{AnyTensor, Carried, Named, Pass, Policy, Stages};

use crate::{
    DeviceTargets, Task, TrainError,
    gradients::accumulate,
    segments::Segments,
    stretch::{Comparison, Forwarded, InFlight, Stretch},
    unfinished::Unfinished,
};

/// What is the same for all parts and micro-batches of a step.
#[derive(Clone, Copy)]
pub(crate) struct PartContext<'a> {
    /// Names the randomness of the step.
    pub(crate) key: Key,
    pub(crate) policy: Policy,
    pub(crate) task: &'a dyn Task,
    /// Samples of all micro-batches together.
    pub(crate) samples: usize,
    pub(crate) continues: bool,
    pub(crate) loss_scale: Option<f32>,
}

/// What one device has of a model, in a step: what it executes, and what the planner records.
pub(crate) struct Part<'a> {
    pub(crate) model: Stages,
    pub(crate) segments: &'a Segments,
    pub(crate) unfinished: Unfinished,
    /// What its recurrent layers go on from.
    pub(crate) carried: Option<Carried>,
    pub(crate) gradients: Named<AnyTensor>,
    pub(crate) loss: Option<Tensor<1>>,
    pub(crate) correct: Option<Tensor<1>>,
    /// What its recurrent layers leave, by micro-batch.
    pub(crate) left: Vec<Carried>,
    in_flight: BTreeMap<usize, InFlight>,
}

impl<'a> Part<'a> {
    pub(crate) fn new(
        model: Stages,
        segments: &'a Segments,
        unfinished: Unfinished,
        carried: Option<Carried>,
    ) -> Self {
        Self {
            model,
            segments,
            unfinished,
            carried,
            gradients: Named::new(),
            loss: None,
            correct: None,
            left: Vec::new(),
            in_flight: BTreeMap::new(),
        }
    }

    /// Forward of the micro-batch at `index`, which is the samples `rows` of the batch. On the last device, which has the
    /// targets, it ends in the loss; else it gives the output for the next.
    pub(crate) fn forward(
        &mut self,
        (index, rows): (usize, Range<usize>),
        input: AnyTensor,
        targets: Option<DeviceTargets>,
        context: PartContext<'_>,
    ) -> Result<Option<AnyTensor>, TrainError> {
        let PartContext { key, policy, task, samples, continues, loss_scale } = context;
        let mut pass = Pass::train(key.with(index as u64)).with_policy(policy);
        let weight = rows.len() as f32 / samples as f32;
        if let Some(carried) = &self.carried {
            pass = pass.with_carried(if continues { carried.rows(rows) } else { Carried::new() });
        }
        let comparison = targets.map(|targets| Comparison { task, targets, weight, loss_scale });
        let Forwarded { output, loss, correct, carried, in_flight } =
            self.stretch().forward(input, pass, comparison)?;
        // The map is the program's, what stands in it the device's.
        charge(Account::Host, || self.in_flight.insert(index, in_flight));
        self.left.extend(carried);
        self.count(loss, correct);
        Ok(output)
    }

    /// Adds what a micro-batch was compared with.
    pub(crate) fn count(&mut self, loss: Option<Tensor<1>>, correct: Option<Tensor<1>>) {
        add(&mut self.loss, loss);
        add(&mut self.correct, correct);
    }

    /// Backward of it: from the loss, or from the gradient of the output. Gives the gradient of the input, where it is
    /// wanted.
    pub(crate) fn backward(
        &mut self,
        index: usize,
        gradient: Option<AnyTensor>,
    ) -> Result<Option<AnyTensor>, TrainError> {
        // Schedules have each forward before its backward.
        let in_flight = self.in_flight.remove(&index).expect("the micro-batch went forward");
        let outcome = self.stretch().backward(in_flight, gradient, &mut |_, _| Ok(()))?;
        let _phase = phase(Phase::Backward);
        accumulate(&mut self.gradients, outcome.gradients);
        Ok(outcome.input)
    }

    fn stretch(&mut self) -> Stretch<'_> {
        let Self { model, segments, unfinished, .. } = self;
        Stretch { model, segments, unfinished, watch: None }
    }
}

fn add(sum: &mut Option<Tensor<1>>, more: Option<Tensor<1>>) {
    let Some(more) = more else { return };
    *sum = Some(match sum.take() {
        Some(so_far) => so_far + more,
        None => more,
    });
}
