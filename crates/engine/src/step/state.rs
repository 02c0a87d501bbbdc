//! The state of a stepper on the host, and models for evaluation, where ranks hold shards too.

use oomph_config::Shard;
use oomph_memory::{Account, charge};
use oomph_model::{Named, ParameterInfo, Stages};

use super::stepper::Stepper;
use crate::{
    EngineError,
    average::WeightAverage,
    part::EvaluatedModel,
    ranks::{Gatherer, shard_record, whole_model_record, whole_optimizer_record},
    record::{HostTensor, OptimizerRecord, RecordError, model_record, restore_model},
};

/// What a checkpoint holds of a stepper: whole tensors.
#[derive(Clone, Debug)]
pub struct StepperState {
    /// The parameters and running statistics.
    pub model: Named<HostTensor>,
    /// The optimizer's state.
    pub optimizer: OptimizerRecord,
    /// The averages of the weights and the number of their updates, if there are averages.
    pub average: Option<(Named<HostTensor>, u64)>,
}

impl Stepper {
    /// Whether the ranks hold shards of something. Then [`state`](Self::state) is a collective.
    pub fn is_sharded(&self) -> bool {
        self.ranks.gatherer.is_some()
    }

    /// What gathers sharded parameters; `None` if every rank has all parameters.
    fn of_parameters(&self) -> Option<&Gatherer> {
        self.ranks.gatherer.as_ref().filter(|it| it.shards.has(Shard::Parameters))
    }

    /// Keeps only this rank's shards of the parameters, if parameters are sharded. The model must be whole.
    pub fn shard_parameters(&mut self) {
        let Some(Gatherer { shards, .. }) = self.of_parameters() else { return };
        let shards = charge(Account::Host, || shards.clone());
        shards.divide(&mut self.model, |_| true);
    }

    /// The number of trained elements of the whole model.
    pub fn trainable_elements(&self) -> usize {
        self.elements(|info| info.trainable)
    }

    /// The number of frozen elements of the whole model.
    pub fn frozen_elements(&self) -> usize {
        self.elements(|info| info.frozen)
    }

    /// The number of trained elements whose optimizer state this rank keeps.
    pub fn stepped_elements(&self) -> usize {
        match &self.ranks.gatherer {
            Some(Gatherer { shards, .. }) => {
                let mut elements = 0;
                self.model.visit(&mut |info, _| {
                    elements += if info.trainable { shards.range(info.name).len() } else { 0 };
                });
                elements
            }
            None => self.trainable_elements(),
        }
    }

    fn elements(&self, counts: impl Fn(ParameterInfo<'_>) -> bool) -> usize {
        let mut elements = 0;
        self.model.visit(&mut |info, tensor| {
            if counts(info) {
                elements += match self.of_parameters() {
                    Some(Gatherer { shards, .. }) => shards.elements(info.name),
                    None => tensor.elements(),
                };
            }
        });
        elements
    }

    /// The model that evaluations use: the averaged one, if there is one. If parameters are sharded, evaluating it is a collective.
    pub fn to_evaluate(&self) -> EvaluatedModel<'_> {
        EvaluatedModel { stages: self.evaluated(), gatherer: self.of_parameters() }
    }

    /// Copies the state to the host. If something is sharded, it is a collective, and only rank 0 keeps the whole state.
    ///
    /// # Errors
    /// If a rank or a device fails.
    pub fn state(&self) -> Result<StepperState, EngineError> {
        let record = |model: &Stages| -> Result<_, EngineError> {
            match self.of_parameters() {
                Some(gatherer) => whole_model_record(model, &gatherer.shards, self.ranks.replicas.group()),
                None => Ok(model_record(model)?),
            }
        };
        let model = record(&self.model)?;
        let optimizer = match &self.ranks.gatherer {
            Some(Gatherer { shards, .. }) => {
                whole_optimizer_record(&self.optimizer, shards, self.ranks.replicas.group())?
            }
            None => self.optimizer.record()?,
        };
        let average = self.average.as_ref().and_then(|average| Some((average.model()?, average.updates())));
        let average = average.map(|(model, updates)| Ok::<_, EngineError>((record(model)?, updates)));
        Ok(StepperState { model, optimizer, average: average.transpose()? })
    }

    /// Restores the optimizer's state from a whole record, of which this rank keeps its shards. Parameters are in their places.
    ///
    /// # Errors
    /// The errors of [`Optimizer::restore`](crate::optimizer::Optimizer::restore).
    pub fn restore_optimizer(&mut self, record: OptimizerRecord) -> Result<(), RecordError> {
        let Some(Gatherer { shards, .. }) = &self.ranks.gatherer else {
            return self.optimizer.restore(record, &self.model);
        };
        let own = charge(Account::Host, || shard_record(record, shards));
        if shards.has(Shard::Parameters) {
            return self.optimizer.restore(own, &self.model);
        }
        let mut divided = charge(Account::Host, || self.model.clone());
        shards.divide(&mut divided, |_| true);
        self.optimizer.restore(own, &divided)
    }

    /// Restores the averages of the weights from a whole record, if the training keeps averages. The model is whole, and on the device
    /// where models are made.
    ///
    /// # Errors
    /// The errors of [`restore_model`].
    pub fn restore_average(
        &mut self,
        record: &Named<HostTensor>,
        updates: u64,
        device: &burn::tensor::Device,
    ) -> Result<(), RecordError> {
        if self.average.is_none() {
            return Ok(());
        }
        let mut averaged = charge(Account::Host, || self.model.clone());
        restore_model(&mut averaged, record, device)?;
        let mut averaged = self.layout.placed(averaged);
        if let Some(Gatherer { shards, .. }) = self.of_parameters() {
            shards.divide(&mut averaged, |_| true);
        }
        self.average
            .iter_mut()
            .for_each(|average: &mut WeightAverage| average.restore(averaged.clone(), updates));
        Ok(())
    }
}
