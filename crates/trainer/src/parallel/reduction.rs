use std::time::{Duration, Instant};

use burn::tensor::Device;
use oomph_memory::{
    Account, LaneKind, charge,
    record::{lane, lane_was, transfer},
};
use oomph_model::{AnyTensor, Named, Stages};
use oomph_parallel::group::{Pending, Reduced};

use super::{Replicas, replicas::WAITING};
use crate::TrainError;

/// The parameters whose gradients travel together: those of the stages whose backward ends at the same time.
pub(crate) type Bucket = Vec<(String, Vec<usize>)>;

/// The gradients of a step on their way to the sum over all ranks, started bucket by bucket while backward goes on.
///
/// They travel through host memory: a bucket's copy leaves the device as it is started, and its sum comes back when all
/// is done. Of a parameter without a gradient zeros travel, and a mark that says so.
pub(crate) struct Reduction<'a> {
    replicas: &'a Replicas,
    buckets: &'a [Bucket],
    /// Of those that were not started yet, the last comes next.
    left: usize,
    started: Vec<Started<'a>>,
}

/// A bucket that is under way.
struct Started<'a> {
    index: usize,
    bucket: &'a Bucket,
    at: Instant,
    pending: Pending,
}

/// What lanes call it.
const GRADIENTS: &str = "gradients";

impl<'a> Reduction<'a> {
    pub(crate) fn new(replicas: &'a Replicas, buckets: &'a [Bucket]) -> Self {
        Self { replicas, buckets, left: buckets.len(), started: Vec::new() }
    }

    /// Starts what is to be summed up to the bucket at `index`, from behind: backward has passed it. Takes its gradients
    /// out of `newest`, adds those of micro-batches before, `sums`.
    pub(crate) fn pass(
        &mut self,
        index: usize,
        sums: &mut Named<AnyTensor>,
        newest: &mut Named<AnyTensor>,
    ) -> Result<(), TrainError> {
        while self.left > index {
            self.left -= 1;
            let bucket = &self.buckets[self.left];
            if bucket.is_empty() {
                continue;
            }
            let _lane = lane(LaneKind::Communication, GRADIENTS, Some(self.left));
            let mut values = charge(Account::Host, || Vec::with_capacity(room(bucket)));
            for (name, shape) in bucket {
                let gradient = match (sums.remove(name), newest.remove(name)) {
                    (Some(sum), Some(newest)) => Some(sum.add(newest)),
                    (one, other) => one.or(other),
                };
                charge(Account::Host, || write(gradient, shape, &mut values))?;
            }
            let at = Instant::now();
            let pending = charge(Account::Host, || self.replicas.group().start_all_reduce(values));
            self.started.push(Started { index: self.left, bucket, at, pending });
        }
        Ok(())
    }

    /// Starts what is left, waits for all and gives the sums, on `device`; and how long they were on their way, and how
    /// long that was waited for.
    pub(crate) fn finish(
        mut self,
        mut sums: Named<AnyTensor>,
        device: &Device,
    ) -> Result<(Named<AnyTensor>, [Duration; 2]), TrainError> {
        self.pass(0, &mut sums, &mut Named::new())?;
        let (mut reduced, mut times) = (Named::new(), [Duration::ZERO; 2]);
        for Started { index, bucket, at, pending } in self.started {
            let _lane = lane(LaneKind::Communication, GRADIENTS, Some(index));
            let waits = Instant::now();
            let Reduced { values, took, moving, blocked } = pending.wait()?;
            transfer(GRADIENTS, Some(index), at, took);
            // Until all ranks are there nothing moves.
            let met = at + took.saturating_sub(moving);
            if met > waits {
                lane_was(LaneKind::Idle, WAITING, None, [waits, met]);
            }
            times = [times[0] + took, times[1] + blocked];
            let mut values = values.as_slice();
            for (name, shape) in bucket {
                let (gradient, rest) = values.split_at(shape.iter().product());
                let (mark, rest) = rest.split_at(1);
                values = rest;
                if mark[0] > 0.0 {
                    let gradient = AnyTensor::floats(gradient.to_vec(), shape, device);
                    reduced.insert(charge(Account::Host, || name.clone()), gradient);
                }
            }
        }
        Ok((reduced, times))
    }
}

/// Values and marks.
fn room(bucket: &Bucket) -> usize {
    bucket.iter().map(|(_, shape)| shape.iter().product::<usize>() + 1).sum()
}

fn write(gradient: Option<AnyTensor>, shape: &[usize], values: &mut Vec<f32>) -> Result<(), TrainError> {
    match gradient {
        Some(gradient) => {
            values.extend(gradient.to_host()?);
            values.push(1.0);
        }
        None => values.resize(values.len() + shape.iter().product::<usize>() + 1, 0.0),
    }
    Ok(())
}

/// The trained parameters of each run of stages: what backward has the gradients of when it has passed it.
pub(crate) fn buckets(model: &Stages, runs: impl Iterator<Item = std::ops::Range<usize>>) -> Vec<Bucket> {
    let mut of_stage: Vec<Bucket> = vec![Bucket::new(); model.len()];
    model.visit(&mut |info, tensor| {
        if info.trainable {
            of_stage[info.stage].push((info.name.to_owned(), tensor.dims()));
        }
    });
    runs.map(|stages| of_stage[stages].concat()).collect()
}
