use std::{fmt, path::Path, sync::Arc};

use oomph_memory::{
    Account, LaneKind, charge,
    record::{LaneGuard, lane},
};
use oomph_model::{AnyTensor, Carried, Peers, Stages};
use oomph_parallel::group::{Alone, Group};
use sha2::{Digest, Sha256};

use super::{Order, collective::Collective};
use crate::{
    TrainError,
    state::{HostTensor, StateError, tensor_file},
};

/// How an error calls what a rank carries.
const CARRIED: &str = "carried state";

/// What a lane calls the time in which a rank waits for others.
pub(super) const WAITING: &str = "waits for other ranks";

/// The replicas that train together, seen from one of them. One alone is the usual case, in which nothing is exchanged.
#[derive(Clone)]
pub(crate) struct Replicas {
    group: Arc<dyn Group>,
    /// Where their devices sum among themselves.
    collective: Option<Collective>,
}

impl Replicas {
    /// One replica, with nobody else.
    pub(crate) fn alone() -> Self {
        Self::new(Arc::new(Alone), None)
    }

    pub(crate) fn new(group: Arc<dyn Group>, collective: Option<Collective>) -> Self {
        Self { group, collective }
    }

    pub(crate) fn collective(&self) -> Option<&Collective> {
        self.collective.as_ref()
    }

    /// Whether gradients are summed: over several, or by what sums over several too.
    pub(crate) fn reduce(&self) -> bool {
        !self.is_alone() || self.collective.is_some()
    }

    pub(crate) fn group(&self) -> &dyn Group {
        &*self.group
    }

    pub(crate) fn rank(&self) -> usize {
        self.group.rank()
    }

    pub(crate) fn world_size(&self) -> usize {
        self.group.world_size()
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.world_size() == 1
    }

    /// Has the others do the same as this rank, which is 0, is about to.
    pub(crate) fn order(&self, order: Order) -> Result<(), TrainError> {
        if self.is_alone() {
            return Ok(());
        }
        let _lane = waiting();
        self.group.broadcast(0, order.bytes())?;
        Ok(())
    }

    /// Has the others evaluate on as many batches as this rank, which is 0, is about to.
    pub(crate) fn glance(&self, batches: usize) -> Result<(), TrainError> {
        self.order(Order::Glance)?;
        if !self.is_alone() {
            self.told(Some(&batches.to_string()))?;
        }
        Ok(())
    }

    /// What rank 0 orders.
    pub(super) fn next_order(&self) -> Result<Order, TrainError> {
        let waiting = waiting();
        let bytes = self.group.broadcast(0, Vec::new())?;
        drop(waiting);
        Order::from_bytes(&bytes).ok_or(TrainError::OtherVersion { rank: self.rank() })
    }

    /// Samples of all ranks together, of which this one has so many.
    pub(crate) fn samples(&self, here: usize) -> Result<usize, TrainError> {
        // Whole numbers up to 2⁵³ are exact.
        Ok(self.sum(&[here as f64])?[0] as usize)
    }

    /// Sums over all ranks.
    pub(crate) fn sum(&self, values: &[f64]) -> Result<Vec<f64>, TrainError> {
        if self.is_alone() {
            return Ok(values.to_vec());
        }
        let _lane = waiting();
        Ok(self.group.all_reduce_f64(values)?)
    }

    /// Those that layers share statistics with, where there is somebody.
    pub(crate) fn peers(&self) -> Option<Arc<dyn Peers>> {
        (!self.is_alone()).then(|| Arc::new(OtherReplicas(self.group.clone())) as Arc<dyn Peers>)
    }

    /// Text of rank 0.
    pub(crate) fn told(&self, text: Option<&str>) -> Result<String, TrainError> {
        let bytes = self.group.broadcast(0, text.unwrap_or_default().as_bytes().to_vec())?;
        String::from_utf8(bytes).map_err(|_| TrainError::OtherVersion { rank: self.rank() })
    }

    /// Gives all ranks the running statistics of rank 0, whose they are in checkpoints too. They differ where batch
    /// normalisation looks at a rank's own samples alone.
    pub(crate) fn share_statistics(&self, model: &mut Stages) -> Result<(), TrainError> {
        let mut has_any = false;
        model.visit(&mut |info, _| has_any |= !info.trainable && !info.frozen);
        if self.is_alone() || !has_any {
            return Ok(());
        }
        let mut bytes = Vec::new();
        if self.rank() == 0 {
            let mut failed = None;
            model.visit(&mut |info, tensor| {
                if info.trainable || info.frozen {
                    return;
                }
                match tensor.inner().to_host() {
                    Ok(values) => bytes.extend(values.iter().flat_map(|value| value.to_le_bytes())),
                    Err(error) => failed = Some(error),
                }
            });
            failed.map_or(Ok(()), Err)?;
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

    /// What recurrent layers carry, of all ranks in their order: on rank 0.
    pub(crate) fn gather_carried(&self, carried: &Carried) -> Result<Carried, TrainError> {
        if self.is_alone() {
            return Ok(carried.clone());
        }
        charge(Account::Host, || {
            let device = carried.tensors().values().next().map(AnyTensor::device);
            let tensors = carried
                .tensors()
                .iter()
                .map(|(name, tensor)| Ok((name.clone(), HostTensor::from_tensor(tensor)?)));
            let tensors = tensors.collect::<Result<_, StateError>>()?;
            let bytes = tensor_file::encode(&tensors, Path::new(CARRIED))?;
            let gathered = self.group.all_gather(bytes)?;
            let Some(device) = device.filter(|_| self.rank() == 0) else { return Ok(Carried::new()) };
            let part = |bytes: &Vec<u8>| -> Result<Carried, TrainError> {
                let tensors = tensor_file::decode(bytes, Path::new(CARRIED))?;
                Ok(tensors.into_iter().map(|(name, tensor)| (name, tensor.to_tensor(&device))).collect())
            };
            Ok(Carried::joined(gathered.iter().map(part).collect::<Result<_, _>>()?))
        })
    }

    /// Compares the parameters of all ranks, which are the same bits while all goes well.
    ///
    /// # Errors
    /// [`TrainError::ReplicasDiffer`].
    pub(crate) fn check(&self, model: &Stages, step: usize) -> Result<(), TrainError> {
        if self.is_alone() {
            return Ok(());
        }
        let digest = charge(Account::Host, || digest(model))?;
        let digests = self.group.all_gather(digest)?;
        let differing: Vec<_> = (1..digests.len()).filter(|rank| digests[*rank] != digests[0]).collect();
        match differing.is_empty() {
            true => Ok(()),
            false => Err(TrainError::ReplicasDiffer { step, ranks: differing }),
        }
    }
}

/// What a rank does when it needs a few numbers of the others: it takes as long as they need to come.
pub(super) fn waiting() -> LaneGuard {
    lane(LaneKind::Idle, WAITING, None)
}

/// The other replicas, as layers see them.
#[derive(Debug)]
struct OtherReplicas(Arc<dyn Group>);

impl Peers for OtherReplicas {
    fn sum(&self, values: &mut [f64]) {
        let _lane = lane(LaneKind::Communication, "statistics", None);
        // A group that failed stays failed, so that the step ends in its error.
        if let Ok(sums) = self.0.all_reduce_f64(values) {
            values.copy_from_slice(&sums);
        }
    }
}

/// Of what is trained.
fn digest(model: &Stages) -> Result<Vec<u8>, TrainError> {
    let mut digest = Sha256::new();
    let mut failed = None;
    model.visit(&mut |info, tensor| {
        if !info.trainable || failed.is_some() {
            return;
        }
        match tensor.inner().to_host() {
            Ok(values) => values.iter().for_each(|value| digest.update(value.to_le_bytes())),
            Err(error) => failed = Some(error),
        }
    });
    failed.map_or(Ok(()), Err)?;
    Ok(digest.finalize().to_vec())
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Replicas").field(&self.group).finish()
    }
}
