//! The state of a stepper on the host, and what is whole where ranks hold shards.

use oomph_config::sections::sharing::Shard;
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

/// Whether the ranks hold shards of something. Then [`state`] is a collective.
pub fn is_sharded(stepper: &Stepper) -> bool {
    stepper.ranks.gatherer.is_some()
}

/// Keeps only this rank's shards of the parameters, if parameters are sharded. The model must be whole.
pub fn shard_parameters(stepper: &mut Stepper) {
    let Some(Gatherer { shards, .. }) = stepper.ranks.of_parameters() else { return };
    let shards = charge(Account::Host, || shards.clone());
    shards.divide(&mut stepper.model, |_| true);
}

/// The number of trained elements of the whole model.
pub fn trainable_elements(stepper: &Stepper) -> usize {
    elements(stepper, |info| info.trainable)
}

/// The number of frozen elements of the whole model.
pub fn frozen_elements(stepper: &Stepper) -> usize {
    elements(stepper, |info| info.frozen)
}

/// The number of trained elements whose optimizer state this rank keeps.
pub fn stepped_elements(stepper: &Stepper) -> usize {
    match &stepper.ranks.gatherer {
        Some(Gatherer { shards, .. }) => {
            let mut elements = 0;
            stepper.model.visit(&mut |info, _| {
                elements += if info.trainable { shards.range(info.name).len() } else { 0 };
            });
            elements
        }
        None => trainable_elements(stepper),
    }
}

fn elements(stepper: &Stepper, counts: impl Fn(ParameterInfo<'_>) -> bool) -> usize {
    let mut elements = 0;
    stepper.model.visit(&mut |info, tensor| {
        if counts(info) {
            elements += match stepper.ranks.of_parameters() {
                Some(Gatherer { shards, .. }) => shards.elements(info.name),
                None => tensor.elements(),
            };
        }
    });
    elements
}

/// The model that evaluations use: the averaged one, if there is one. If parameters are sharded, evaluating it is a collective.
pub fn to_evaluate(stepper: &Stepper) -> EvaluatedModel<'_> {
    EvaluatedModel { stages: stepper.evaluated(), gatherer: stepper.ranks.of_parameters() }
}

/// Copies the state to the host. If something is sharded, it is a collective, and only rank 0 keeps the whole state.
///
/// # Errors
/// If a rank or a device fails.
pub fn state(stepper: &Stepper) -> Result<StepperState, EngineError> {
    let record = |model: &Stages| -> Result<_, EngineError> {
        match stepper.ranks.of_parameters() {
            Some(gatherer) => whole_model_record(model, &gatherer.shards, stepper.ranks.replicas.group()),
            None => Ok(model_record(model)?),
        }
    };
    let model = record(&stepper.model)?;
    let optimizer = match &stepper.ranks.gatherer {
        Some(Gatherer { shards, .. }) => {
            whole_optimizer_record(&stepper.optimizer, shards, stepper.ranks.replicas.group())?
        }
        None => stepper.optimizer.record()?,
    };
    let average = stepper.average.as_ref().and_then(|average| Some((average.model()?, average.updates())));
    let average = average.map(|(model, updates)| Ok::<_, EngineError>((record(model)?, updates)));
    Ok(StepperState { model, optimizer, average: average.transpose()? })
}

/// Restores the optimizer's state from a whole record, of which this rank keeps its shards. Parameters are in their places.
///
/// # Errors
/// The errors of [`Optimizer::restore`](crate::optimizer::Optimizer::restore).
pub fn restore_optimizer(stepper: &mut Stepper, record: OptimizerRecord) -> Result<(), RecordError> {
    let Some(Gatherer { shards, .. }) = &stepper.ranks.gatherer else {
        return stepper.optimizer.restore(record, &stepper.model);
    };
    let own = charge(Account::Host, || shard_record(record, shards));
    if shards.has(Shard::Parameters) {
        return stepper.optimizer.restore(own, &stepper.model);
    }
    let mut divided = charge(Account::Host, || stepper.model.clone());
    shards.divide(&mut divided, |_| true);
    stepper.optimizer.restore(own, &divided)
}

/// Restores the averages of the weights from a whole record, if the training keeps averages. The model is whole, and on the device
/// where models are made.
///
/// # Errors
/// The errors of [`restore_model`].
pub fn restore_average(
    stepper: &mut Stepper,
    record: Named<HostTensor>,
    updates: u64,
    device: &burn::tensor::Device,
) -> Result<(), RecordError> {
    if stepper.average.is_none() {
        return Ok(());
    }
    let mut averaged = charge(Account::Host, || stepper.model.clone());
    restore_model(&mut averaged, record, device)?;
    let mut averaged = stepper.layout.placed(averaged);
    if let Some(Gatherer { shards, .. }) = stepper.ranks.of_parameters() {
        shards.divide(&mut averaged, |_| true);
    }
    stepper
        .average
        .iter_mut()
        .for_each(|average: &mut WeightAverage| average.restore(averaged.clone(), updates));
    Ok(())
}
