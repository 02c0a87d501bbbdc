//! Records of sharded parameters and optimizer state. A checkpoint holds whole tensors, whatever the number of ranks.

use oomph_kernels::packed::StoredMoment;
use oomph_model::{Named, Stages};
use oomph_parallel::Group;

use super::Shards;
use crate::{
    EngineError,
    optimizer::{Optimizer, names_of},
    record::{HostTensor, OptimizerRecord, PackedTensor},
    tensor_file,
};

/// The whole parameters and running statistics of a model of shards. It is a collective, with one all-gather for each parameter; only
/// rank 0 keeps the result.
///
/// # Errors
/// If a rank or a device fails.
pub(crate) fn whole_model_record(
    model: &Stages,
    shards: &Shards,
    group: &dyn Group,
) -> Result<Named<HostTensor>, EngineError> {
    let mut record = Named::new();
    model.try_visit(|info, tensor| -> Result<(), EngineError> {
        let host = if shards.includes(info.name) {
            let own =
                if shards.range(info.name).is_empty() { Vec::new() } else { tensor.inner().to_host()? };
            let gathered = group.start_all_gather(own).wait()?;
            (group.rank() == 0).then(|| HostTensor {
                shape: shards.shape(info.name).to_vec(),
                values: gathered.values.concat(),
            })
        } else {
            (group.rank() == 0).then(|| HostTensor::from_tensor(&tensor)).transpose()?
        };
        record.extend(host.map(|host| (info.name.to_owned(), host)));
        Ok(())
    })?;
    Ok(record)
}

/// The whole state of an optimizer whose state is sharded. It is a collective, with one all-gather for each parameter; only rank 0
/// keeps the result.
///
/// # Errors
/// If a rank or a device fails.
pub(crate) fn whole_optimizer_record(
    optimizer: &Optimizer,
    shards: &Shards,
    group: &dyn Group,
) -> Result<OptimizerRecord, EngineError> {
    let mut whole = OptimizerRecord::default();
    for name in shards.names() {
        let own = optimizer.record_of(|parameter| parameter == name)?;
        let gathered = group.all_gather(tensor_file::encode_message(&own)?)?;
        if group.rank() == 0 {
            let parts = gathered.iter().map(|bytes| tensor_file::decode_message(bytes));
            join(&mut whole, name, shards, parts.collect::<Result<_, _>>()?);
        }
    }
    Ok(whole)
}

/// Adds the state of a parameter from the shards of all ranks, in order.
fn join(whole: &mut OptimizerRecord, name: &str, shards: &Shards, parts: Vec<OptimizerRecord>) {
    let shape = shards.shape(name);
    for part in parts {
        for (leaf, tensor) in part.tensors {
            let so_far = whole
                .tensors
                .entry(leaf)
                .or_insert_with(|| HostTensor { shape: shape.to_vec(), values: Vec::new() });
            so_far.values.extend(tensor.values);
        }
        for (leaf, PackedTensor { moment, .. }) in part.packed {
            match whole.packed.get_mut(&leaf) {
                Some(so_far) => append(&mut so_far.moment, moment),
                None => drop(whole.packed.insert(leaf, PackedTensor { shape: shape.to_vec(), moment })),
            }
        }
        // All ranks took the same steps.
        whole.scalars.extend(part.scalars);
        whole.ranks.extend(part.ranks);
    }
}

/// Appends the moment of the next shard: all shards of a parameter have one format, and begin with a block.
fn append(so_far: &mut StoredMoment, next: StoredMoment) {
    match (so_far, next) {
        (StoredMoment::Bf16(values), StoredMoment::Bf16(more)) => values.extend(more),
        (StoredMoment::Int8 { codes, scales }, StoredMoment::Int8 { codes: more, scales: their_scales }) => {
            codes.extend(more);
            scales.extend(their_scales);
        }
        _ => {}
    }
}

/// This rank's shards of the state in a whole record. The rest is dropped.
pub(crate) fn shard_record(record: OptimizerRecord, shards: &Shards) -> OptimizerRecord {
    let OptimizerRecord { mut tensors, mut packed, mut scalars, ranks } = record;
    let mut own = OptimizerRecord::default();
    for (name, rank) in ranks {
        let Some(shape) = shards.shard_shape(&name) else { continue };
        let range = shards.range(&name);
        let elements = shards.elements(&name);
        for leaf in leaves(&tensors, &name) {
            if let Some(tensor) = tensors.remove(&leaf) {
                let is_whole = tensor.values.len() == elements;
                let tensor = match is_whole {
                    true => {
                        HostTensor { shape: shape.clone(), values: tensor.values[range.clone()].to_vec() }
                    }
                    false => tensor,
                };
                own.tensors.insert(leaf, tensor);
            }
        }
        for leaf in leaves(&packed, &name) {
            if let Some(PackedTensor { moment, .. }) = packed.remove(&leaf) {
                let moment = match moment {
                    StoredMoment::Bf16(values) => StoredMoment::Bf16(values[range.clone()].to_vec()),
                    StoredMoment::Int8 { codes, scales } => StoredMoment::Int8 {
                        codes: codes[range.clone()].to_vec(),
                        scales: scales[StoredMoment::scales(range.start)..StoredMoment::scales(range.end)]
                            .to_vec(),
                    },
                };
                own.packed.insert(leaf, PackedTensor { shape: shape.clone(), moment });
            }
        }
        for leaf in leaves(&scalars, &name) {
            own.scalars.extend(scalars.remove(&leaf).map(|value| (leaf, value)));
        }
        own.ranks.insert(name, rank);
    }
    own
}

/// The leaves of a parameter, to be taken out.
fn leaves<T>(all: &Named<T>, name: &str) -> Vec<String> {
    names_of(all, name).cloned().collect()
}
