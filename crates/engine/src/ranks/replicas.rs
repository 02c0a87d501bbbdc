use std::{fmt, sync::Arc};

use burn::tensor::{
    Device, Tensor,
    distributed::{CollectiveTensor, ReduceOperation, all_reduce},
};
use oomph_memory::{
    Account, charge,
    record::{TrackGuard, track},
};
use oomph_model::{AnyTensor, Carried, Peers, Stages};
use oomph_parallel::group::{Alone, Group};
use oomph_timeline::TrackKind;
use sha2::{Digest, Sha256};

use crate::{
    EngineError,
    record::{carried_record, restored_carried},
    tensor_file,
};

/// The name of the time on tracks in which a rank waits for others.
pub(super) const WAITING: &str = "waits for other ranks";

/// GPUs of this process that all-reduce by NCCL, without the host. Each GPU has its own thread.
///
/// Burn creates the communicator with the first all-reduce. All-reduces run on a separate stream, at the same time as
/// backward.
#[derive(Clone, Debug)]
pub struct Collective(Arc<[Device]>);

impl Collective {
    /// A collective of these GPUs. Each GPU may be listed once.
    ///
    /// # Panics
    /// Burn panics at the first all-reduce if NCCL is not installed.
    pub fn new(devices: &[Device]) -> Self {
        Self(devices.into())
    }

    /// Starts an all-reduce of `values` over all devices. The result must not be read before all ranks have started it
    /// too.
    pub(crate) fn start(&self, values: Tensor<1>) -> CollectiveTensor<1> {
        all_reduce(values, ReduceOperation::Sum, self.0.to_vec())
    }
}

/// The replicas that train together, seen from one rank. A single replica exchanges nothing.
#[derive(Clone)]
pub struct Replicas {
    group: Arc<dyn Group>,
    /// The collective of their GPUs, if they have one.
    collective: Option<Collective>,
}

impl Replicas {
    /// A single replica.
    pub fn alone() -> Self {
        Self::new(Arc::new(Alone), None)
    }

    /// The replicas of `group`. With a `collective` the devices reduce gradients among themselves.
    pub fn new(group: Arc<dyn Group>, collective: Option<Collective>) -> Self {
        Self { group, collective }
    }

    /// The collective of the devices, if they have one.
    pub fn collective(&self) -> Option<&Collective> {
        self.collective.as_ref()
    }

    /// Whether gradients are reduced: there are other ranks, or there is a collective.
    pub fn reduce(&self) -> bool {
        !self.is_alone() || self.collective.is_some()
    }

    /// The group of ranks.
    pub fn group(&self) -> &dyn Group {
        &*self.group
    }

    /// The number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.group.rank()
    }

    /// The number of ranks.
    pub fn world_size(&self) -> usize {
        self.group.world_size()
    }

    /// Whether this is the only rank.
    pub fn is_alone(&self) -> bool {
        self.world_size() == 1
    }

    /// The samples of all ranks together, of which this rank has `samples`, and the sum of their weights.
    ///
    /// # Errors
    /// If another rank failed.
    pub fn totals(&self, samples: usize, weight: f64) -> Result<(usize, f64), EngineError> {
        let sums = self.sum(&[samples as f64, weight])?;
        // Whole numbers up to 2⁵³ are exact.
        Ok((sums[0] as usize, sums[1]))
    }

    /// The element-wise sums over all ranks.
    ///
    /// # Errors
    /// If another rank failed.
    pub fn sum(&self, values: &[f64]) -> Result<Vec<f64>, EngineError> {
        if self.is_alone() {
            return Ok(values.to_vec());
        }
        let _track = waiting();
        Ok(self.group.all_reduce_f64(values)?)
    }

    /// The other ranks, as layers use them to share statistics; `None` for a single rank.
    pub fn peers(&self) -> Option<Arc<dyn Peers>> {
        (!self.is_alone()).then(|| Arc::new(OtherReplicas(self.group.clone())) as Arc<dyn Peers>)
    }

    /// Broadcasts a text from rank 0 to all ranks. Other ranks pass `None`.
    ///
    /// # Errors
    /// If another rank failed, and [`EngineError::OtherVersion`] if rank 0 did not send text.
    pub fn broadcast_text(&self, text: Option<&str>) -> Result<String, EngineError> {
        let bytes = self.group.broadcast(0, text.unwrap_or_default().as_bytes().to_vec())?;
        String::from_utf8(bytes).map_err(|_| EngineError::OtherVersion { rank: self.rank() })
    }

    /// Broadcasts the running statistics of rank 0 to all ranks. Checkpoints have those of rank 0 too. Running
    /// statistics differ between ranks if each rank normalises over its own samples.
    ///
    /// # Errors
    /// If a rank or a device failed.
    pub fn share_statistics(&self, model: &mut Stages) -> Result<(), EngineError> {
        let mut has_any = false;
        model.visit(&mut |info, _| has_any |= !info.trainable && !info.frozen);
        if self.is_alone() || !has_any {
            return Ok(());
        }
        let mut bytes = Vec::new();
        if self.rank() == 0 {
            model.try_visit(|info, tensor| -> Result<(), EngineError> {
                if !info.trainable && !info.frozen {
                    let values = tensor.inner().to_host()?;
                    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                }
                Ok(())
            })?;
        }
        let bytes = charge(Account::Host, || self.group.broadcast(0, bytes))?;
        if self.rank() == 0 {
            return Ok(());
        }
        let mut values = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        model.map(&mut |info, tensor| {
            if info.trainable || info.frozen {
                return tensor;
            }
            let shared = values.by_ref().take(tensor.elements()).collect();
            AnyTensor::floats(shared, &tensor.dims(), &tensor.device().inner()).tracked_like(&tensor, false)
        });
        Ok(())
    }

    /// Gathers the carried state of all ranks on rank 0, in the order of ranks.
    ///
    /// # Errors
    /// If a rank or a device failed.
    pub fn gather_carried(&self, carried: &Carried) -> Result<Carried, EngineError> {
        if self.is_alone() {
            return Ok(carried.clone());
        }
        charge(Account::Host, || {
            let device = carried.tensors().values().next().map(AnyTensor::device);
            let bytes = tensor_file::encode(&carried_record(carried)?)?;
            let gathered = self.group.all_gather(bytes)?;
            let Some(device) = device.filter(|_| self.rank() == 0) else { return Ok(Carried::new()) };
            let part = |bytes: &Vec<u8>| -> Result<Carried, EngineError> {
                Ok(restored_carried(&tensor_file::decode(bytes)?, &device))
            };
            Ok(Carried::joined(gathered.iter().map(part).collect::<Result<_, _>>()?))
        })
    }

    /// Checks that all ranks have bit-identical parameters. `step` is the number of finished steps.
    ///
    /// # Errors
    /// [`EngineError::ReplicasDiffer`] if they differ, and an error if a rank or a device failed.
    pub fn check(&self, model: &Stages, step: usize) -> Result<(), EngineError> {
        if self.is_alone() {
            return Ok(());
        }
        let digest = charge(Account::Host, || digest(model))?;
        let digests = self.group.all_gather(digest)?;
        let differing: Vec<_> = (1..digests.len()).filter(|rank| digests[*rank] != digests[0]).collect();
        match differing.is_empty() {
            true => Ok(()),
            false => Err(EngineError::ReplicasDiffer { step, ranks: differing }),
        }
    }
}

/// Marks this rank as idle on its track, until the guard is dropped: it waits for other ranks.
pub fn waiting() -> TrackGuard {
    track(TrackKind::Idle, WAITING, None)
}

/// The other replicas, as layers see them.
#[derive(Debug)]
struct OtherReplicas(Arc<dyn Group>);

impl Peers for OtherReplicas {
    fn sum(&self, values: &mut [f64]) {
        let _track = track(TrackKind::Communication, "statistics", None);
        // A failed group stays failed, so the step ends with the error of the group.
        if let Ok(sums) = self.0.all_reduce_f64(values) {
            values.copy_from_slice(&sums);
        }
    }
}

/// The SHA-256 of all trained parameters.
fn digest(model: &Stages) -> Result<Vec<u8>, EngineError> {
    let mut digest = Sha256::new();
    model.try_visit(|info, tensor| -> Result<(), EngineError> {
        if info.trainable {
            tensor.inner().to_host()?.iter().for_each(|value| digest.update(value.to_le_bytes()));
        }
        Ok(())
    })?;
    Ok(digest.finalize().to_vec())
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Replicas").field(&self.group).finish()
    }
}
