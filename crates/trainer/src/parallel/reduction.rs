use std::time::{Duration, Instant};

use burn::tensor::{Device, Tensor};
use oomph_memory::{
    Account, LaneKind, charge,
    record::{lane, lane_was, transfer},
};
use oomph_model::{AnyTensor, Named, Stages};
use oomph_parallel::group::{Pending, Reduced};

use super::{Replicas, collective::Underway, replicas::WAITING};
use crate::TrainError;

/// The parameters whose gradients travel together: those of the stages whose backward ends at the same time.
pub(crate) type Bucket = Vec<(String, Vec<usize>)>;

/// The gradients of a step on their way to the sum over all ranks, started bucket by bucket while backward goes on.
///
/// Where the devices can sum among themselves, they do. Else gradients travel through host memory: a bucket's copy leaves
/// the device as it is started, and its sum comes back when all is done. Of a parameter without a gradient zeros travel,
/// and a mark that says so.
pub(crate) struct Reduction<'a> {
    replicas: &'a Replicas,
    buckets: &'a [Bucket],
    device: Device,
    /// Of those that were not started yet, the last comes next.
    left: usize,
    started: Vec<(usize, Started)>,
    /// Where devices sum among themselves: which parameters had a gradient here, in the order in which they were started.
    marks: Vec<f64>,
}

/// What lanes call it.
const GRADIENTS: &str = "gradients";

enum Started {
    /// Since when.
    ThroughHost(Pending, Instant),
    BetweenDevices(Underway),
}

/// How long gradients were on their way, and how long that was waited for; nothing where devices do both by themselves.
pub(crate) type Times = Option<[Duration; 2]>;

impl<'a> Reduction<'a> {
    /// Of replicas, of which this one is on `device`.
    pub(crate) fn new(replicas: &'a Replicas, buckets: &'a [Bucket], device: Device) -> Self {
        Self { replicas, buckets, device, left: buckets.len(), started: Vec::new(), marks: Vec::new() }
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
            let gradients = bucket.iter().map(|(name, shape)| {
                let gradient = match (sums.remove(name), newest.remove(name)) {
                    (Some(sum), Some(newest)) => Some(sum.add(newest)),
                    (one, other) => one.or(other),
                };
                (gradient, shape)
            });
            let started = match self.replicas.collective() {
                Some(collective) => {
                    let flat = flat(gradients, &self.device, &mut self.marks);
                    Started::BetweenDevices(collective.start(flat))
                }
                None => self.through_host(bucket, gradients)?,
            };
            self.started.push((self.left, started));
        }
        Ok(())
    }

    fn through_host<'g>(
        &self,
        bucket: &Bucket,
        gradients: impl Iterator<Item = (Option<AnyTensor>, &'g Vec<usize>)>,
    ) -> Result<Started, TrainError> {
        let mut values = charge(Account::Host, || Vec::with_capacity(room(bucket)));
        for (gradient, shape) in gradients {
            charge(Account::Host, || write(gradient, shape, &mut values))?;
        }
        let start = Instant::now();
        let pending = charge(Account::Host, || self.replicas.group().start_all_reduce(values));
        Ok(Started::ThroughHost(pending, start))
    }

    /// Starts what is left, waits for all and gives the sums.
    pub(crate) fn finish(
        mut self,
        mut sums: Named<AnyTensor>,
    ) -> Result<(Named<AnyTensor>, Times), TrainError> {
        self.pass(0, &mut sums, &mut Named::new())?;
        let mut marks = match self.replicas.collective() {
            // A device waits for the others for ever. So it begins to when all have said that they come.
            Some(_) => self.replicas.sum(&self.marks)?.into_iter(),
            None => Vec::new().into_iter(),
        };
        let (mut reduced, mut times) = (Named::new(), None);
        let mut before: Option<Instant> = None;
        for (index, started) in self.started {
            let _lane = lane(LaneKind::Communication, GRADIENTS, Some(index));
            let bucket = &self.buckets[index];
            match started {
                Started::ThroughHost(pending, start) => {
                    let Reduced { values, took, finished, blocked, .. } = awaited(pending, index, start)?;
                    // Of several under way at once time counts once.
                    let since = |before| took.min(finished.saturating_duration_since(before));
                    let alone = before.map_or(took, since);
                    before = Some(finished);
                    let [way, waited] = times.unwrap_or_default();
                    times = Some([way + alone, waited + blocked]);
                    read(bucket, &values, &self.device, &mut reduced);
                }
                Started::BetweenDevices(underway) => {
                    parted(bucket, underway.wait(), &mut marks, &mut reduced)
                }
            }
        }
        Ok((reduced, times))
    }
}

/// Waits for a sum that was started at `start`. Until all ranks have come nothing moves, and this one is idle.
fn awaited(pending: Pending, index: usize, start: Instant) -> Result<Reduced, TrainError> {
    let waits = Instant::now();
    let reduced = pending.wait()?;
    transfer(GRADIENTS, Some(index), start, reduced.took);
    let met = start + reduced.took.saturating_sub(reduced.moving);
    if met > waits {
        lane_was(LaneKind::Idle, WAITING, None, [waits, met]);
    }
    Ok(reduced)
}

/// The gradients of a bucket in the sums that travelled through host memory.
fn read(bucket: &Bucket, values: &[f32], device: &Device, reduced: &mut Named<AnyTensor>) {
    let mut values = values;
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

/// The gradients of a bucket in one tensor, with zeros where there is none.
fn flat<'g>(
    gradients: impl Iterator<Item = (Option<AnyTensor>, &'g Vec<usize>)>,
    device: &Device,
    marks: &mut Vec<f64>,
) -> Tensor<1> {
    let mut parts = Vec::new();
    for (gradient, shape) in gradients {
        charge(Account::Host, || marks.push(f64::from(gradient.is_some())));
        parts.push(match gradient {
            Some(gradient) => gradient.flattened(),
            None => Tensor::zeros([shape.iter().product::<usize>()], device),
        });
    }
    Tensor::cat(parts, 0)
}

/// The gradients in such a tensor that any rank has.
fn parted(
    bucket: &Bucket,
    sums: Tensor<1>,
    marks: &mut dyn Iterator<Item = f64>,
    reduced: &mut Named<AnyTensor>,
) {
    let mut start = 0;
    for ((name, shape), mark) in bucket.iter().zip(marks) {
        let length: usize = shape.iter().product();
        if mark > 0.0 {
            let gradient = AnyTensor::from(sums.clone().narrow(0, start, length)).shaped(shape);
            reduced.insert(charge(Account::Host, || name.clone()), gradient);
        }
        start += length;
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
