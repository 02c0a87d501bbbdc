use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use burn::tensor::{DType, Device, Tensor, distributed::CollectiveTensor};
use oomph_kernels::offload::{arrived, left_device};
use oomph_memory::{
    Account, charge,
    record::{track, track_was, transfer},
};
use oomph_model::{AnyTensor, Named};
use oomph_parallel::group::{Arrived, Pending};
use oomph_timeline::{Category, TrackKind};

use super::{Bucket, Replicas, Shards, buckets::complete, replicas::WAITING};
use crate::{
    EngineError, device_failure,
    watch::{self, Watch},
};

/// The all-reduce of the gradients of a step, or where gradients are sharded the reduce-scatter of those of each micro-batch. It
/// starts bucket by bucket while backward runs.
///
/// With a [`Collective`](super::Collective) the devices reduce among themselves. Otherwise gradients go through host
/// memory: starting a bucket copies it to the host, and finishing the step copies the sums back. A parameter without a
/// gradient sends zeros and a mark of 0.
pub(crate) struct Reduction {
    replicas: Replicas,
    /// Of sharded gradients: the sums are those of this rank's shards.
    shards: Option<Shards>,
    buckets: Arc<[Bucket]>,
    device: Device,
    /// The number of buckets that were not started yet. The last of them is next.
    left: usize,
    started: VecDeque<(usize, StartedSum)>,
    /// Whether operations execute. Otherwise they are recorded for a plan, without other ranks.
    executes: bool,
    /// With a collective: 1 for each parameter with a gradient on this rank, else 0, in the order of the start. Of buckets
    /// that were started and not taken.
    marks: VecDeque<f64>,
    /// Whether sums are taken bucket by bucket.
    releases: bool,
    /// The sums of earlier micro-batches, of sharded gradients.
    sums: Named<AnyTensor>,
    times: Times,
    /// When the last sum through host memory arrived.
    arrived: Option<Instant>,
}

/// The name of the all-reduce on tracks.
const GRADIENTS: &str = "gradients";

enum StartedSum {
    /// The all-reduce and its start.
    ThroughHost(Pending, Instant),
    BetweenDevices(CollectiveTensor<1>),
    /// Which parameters of the bucket had a gradient.
    Recorded(Vec<bool>),
}

/// Receives the index and the sums of a bucket, and frees them.
pub(crate) type ReleaseSums<'a> = dyn FnMut(usize, Named<AnyTensor>) -> Result<(), EngineError> + 'a;

/// How long gradients were in flight, and how long this rank waited for them; `None` with a collective.
pub(crate) type Times = Option<[Duration; 2]>;

impl Reduction {
    /// The all-reduce of a step of the replica on `device`; with `shards`, the reduce-scatter.
    pub(crate) fn new(
        replicas: Replicas,
        shards: Option<Shards>,
        buckets: Arc<[Bucket]>,
        device: Device,
    ) -> Self {
        Self {
            left: buckets.len(),
            // With shards a bucket is freed at once.
            releases: shards.is_some(),
            shards,
            replicas,
            buckets,
            device,
            started: VecDeque::new(),
            executes: true,
            marks: VecDeque::new(),
            sums: Named::new(),
            times: None,
            arrived: None,
        }
    }

    /// A reduction through host memory that is recorded: gradients leave the device and come back as blanks.
    pub(crate) fn recorded(
        replicas: Replicas,
        shards: Option<Shards>,
        buckets: Arc<[Bucket]>,
        device: Device,
    ) -> Self {
        Self { executes: false, ..Self::new(replicas, shards, buckets, device) }
    }

    /// Sets whether sums are taken bucket by bucket, as [`take_one_but`](Self::take_one_but) does. All ranks must agree.
    pub(crate) fn releasing(self, releases: bool) -> Self {
        Self { releases: releases || self.shards.is_some(), ..self }
    }

    /// Whether the gradients of every micro-batch are reduced, since they are sharded.
    pub(crate) fn is_of_each_micro_batch(&self) -> bool {
        self.shards.is_some()
    }

    /// Starts the all-reduce of all buckets from the last down to the one at `index`, after the backward of its
    /// segment. Takes the gradients out of `newest`, adds those of earlier micro-batches from `sums`, and tells the watch.
    ///
    /// # Errors
    /// If the device fails while a gradient is copied to the host.
    pub(crate) fn pass(
        &mut self,
        index: usize,
        sums: &mut Named<AnyTensor>,
        newest: &mut Named<AnyTensor>,
        mut watch: Option<&mut (dyn Watch + 'static)>,
    ) -> Result<(), EngineError> {
        while self.left > index {
            self.left -= 1;
            let buckets = self.buckets.clone();
            let bucket = &buckets[self.left];
            if bucket.is_empty() {
                continue;
            }
            let _track = self.executes.then(|| track(TrackKind::Communication, GRADIENTS, Some(self.left)));
            let gradients = bucket.iter().map(|(name, shape)| {
                let gradient = complete(name, sums, newest);
                if let (Some(watch), Some(gradient)) = (&mut watch, &gradient) {
                    watch.holds(Category::Gradients, name, gradient);
                }
                (gradient, shape)
            });
            let started = match self.replicas.collective() {
                _ if !self.executes => {
                    let sent = |(gradient, _): (Option<AnyTensor>, _)| gradient.map(left_device).is_some();
                    StartedSum::Recorded(gradients.map(sent).collect())
                }
                Some(collective) => {
                    // A rank whose device failed does not come to the handshake. With an all-reduce in flight, a look
                    // could wait for a rank that never comes.
                    if self.started.is_empty() {
                        device_failure::look(&self.device)?;
                    }
                    let flat = flat(gradients, &self.device, &mut self.marks);
                    StartedSum::BetweenDevices(collective.start(flat))
                }
                None => self.through_host(bucket, gradients)?,
            };
            self.started.push_back((self.left, started));
        }
        Ok(())
    }

    fn through_host<'g>(
        &self,
        bucket: &Bucket,
        gradients: impl Iterator<Item = (Option<AnyTensor>, &'g Vec<usize>)>,
    ) -> Result<StartedSum, EngineError> {
        if let Some(shards) = &self.shards {
            return self.scatter_through_host(bucket, gradients, shards);
        }
        // Values and marks.
        let length: usize = bucket.iter().map(|(_, shape)| shape.iter().product::<usize>() + 1).sum();
        let mut values = charge(Account::Host, || Vec::with_capacity(length));
        for (gradient, shape) in gradients {
            charge(Account::Host, || write(gradient, shape, &mut values))?;
        }
        let start = Instant::now();
        let pending = charge(Account::Host, || self.replicas.group().start_all_reduce(values));
        Ok(StartedSum::ThroughHost(pending, start))
    }

    /// Gives each rank, in order, the values of its shards and behind them the marks of all parameters.
    fn scatter_through_host<'g>(
        &self,
        bucket: &Bucket,
        gradients: impl Iterator<Item = (Option<AnyTensor>, &'g Vec<usize>)>,
        shards: &Shards,
    ) -> Result<StartedSum, EngineError> {
        charge(Account::Host, || {
            let (mut ends, mut end) = (Vec::new(), 0);
            // Where the next shard of each rank begins.
            let mut next = Vec::new();
            for rank in 0..shards.world_size() {
                next.push(end);
                end += bucket.iter().map(|(name, _)| shards.range_of(name, rank).len() + 1).sum::<usize>();
                ends.push(end);
            }
            let mut values = vec![0.0; end];
            for (index, ((name, _), (gradient, _))) in bucket.iter().zip(gradients).enumerate() {
                let gradient = gradient.map(|gradient| gradient.to_host()).transpose()?;
                for (rank, (next, end)) in next.iter_mut().zip(&ends).enumerate() {
                    let range = shards.range_of(name, rank);
                    let place = *next..*next + range.len();
                    *next = place.end;
                    if let Some(gradient) = &gradient {
                        values[place].copy_from_slice(&gradient[range]);
                        values[end - bucket.len() + index] = 1.0;
                    }
                }
            }
            let start = Instant::now();
            Ok(StartedSum::ThroughHost(self.replicas.group().start_reduce_scatter(values, &ends), start))
        })
    }

    /// Reads what arrived of a bucket: sums and marks.
    fn read(&self, bucket: &Bucket, values: &[f32], reduced: &mut Named<AnyTensor>) {
        let Some(shards) = &self.shards else { return read(bucket, values, &self.device, reduced) };
        let (mut values, marks) = values.split_at(values.len() - bucket.len());
        for ((name, _), mark) in bucket.iter().zip(marks) {
            let (sums, rest) = values.split_at(shards.range(name).len());
            values = rest;
            let shape = charge(Account::Host, || shards.shard_shape(name)).filter(|_| *mark > 0.0);
            if let Some(shape) = shape {
                let shard = AnyTensor::floats(sums.to_vec(), &shape, &self.device);
                reduced.insert(charge(Account::Host, || name.clone()), shard);
            }
        }
    }

    /// After backward of a micro-batch that is not the last: takes the sums of its gradients, and adds them to those before.
    ///
    /// # Errors
    /// If a rank or a device fails.
    pub(crate) fn end_micro_batch(
        &mut self,
        watch: Option<&mut (dyn Watch + 'static)>,
    ) -> Result<(), EngineError> {
        self.pass(0, &mut Named::new(), &mut Named::new(), None)?;
        self.add_all_but(0, watch)?;
        self.left = self.buckets.len();
        Ok(())
    }

    /// Adds what arrived of the started buckets, but the `newest` ones, to the sums of earlier micro-batches.
    ///
    /// # Errors
    /// If a rank or a device fails.
    pub(crate) fn add_all_but(
        &mut self,
        newest: usize,
        mut watch: Option<&mut (dyn Watch + 'static)>,
    ) -> Result<(), EngineError> {
        while let Some((_, sums)) = self.take_one_but(newest)? {
            if let Some(watch) = &mut watch {
                watch::gradients(*watch, &sums);
            }
            self.sums.extend(sums);
        }
        Ok(())
    }

    /// Starts the remaining buckets and waits for all. Returns the sums, or gives them to `release` bucket by bucket: a rank without
    /// samples, which has no backward, never holds all sums either.
    ///
    /// # Errors
    /// If a rank or a device fails, and those of `release`.
    pub(crate) fn finish(
        mut self,
        mut sums: Named<AnyTensor>,
        release: Option<&mut ReleaseSums<'_>>,
    ) -> Result<(Named<AnyTensor>, Times), EngineError> {
        self.pass(0, &mut sums, &mut Named::new(), None)?;
        if let Some(release) = release {
            while let Some((index, sums)) = self.take_one_but(0)? {
                release(index, sums)?;
            }
        }
        // A device waits for the others without timeout. So ranks first handshake, with a sum of marks: one for each bucket if these
        // are taken one by one, since a rank without samples takes them all at its end.
        let mut marks = if self.releases { VecDeque::new() } else { self.handshake(self.marks.len())? };
        let mut reduced = Named::new();
        while let Some((index, started)) = self.started.pop_front() {
            reduced.extend(self.taken(index, started, &mut marks)?);
        }
        // Those of buckets that were added during the last backward.
        reduced.append(&mut self.sums);
        Ok((reduced, self.times))
    }

    /// Waits for the sums of the oldest started bucket, unless it is one of the `newest` ones, and returns them with its index. It
    /// adds those of earlier micro-batches.
    ///
    /// # Errors
    /// If a rank or a device fails.
    pub(crate) fn take_one_but(
        &mut self,
        newest: usize,
    ) -> Result<Option<(usize, Named<AnyTensor>)>, EngineError> {
        if self.started.len() <= newest {
            return Ok(None);
        }
        let Some((index, started)) = self.started.pop_front() else { return Ok(None) };
        let mut marks = VecDeque::new();
        Ok(Some((index, self.taken(index, started, &mut marks)?)))
    }

    /// The sums of a bucket.
    fn taken(
        &mut self,
        index: usize,
        started: StartedSum,
        marks: &mut VecDeque<f64>,
    ) -> Result<Named<AnyTensor>, EngineError> {
        let _track = self.executes.then(|| track(TrackKind::Communication, GRADIENTS, Some(index)));
        let buckets = self.buckets.clone();
        let bucket = &buckets[index];
        let mut reduced = Named::new();
        match started {
            StartedSum::ThroughHost(pending, start) => {
                let values = self.awaited(pending, index, start)?;
                self.read(bucket, &values, &mut reduced);
                charge(Account::Host, || drop(values));
            }
            StartedSum::Recorded(had) => {
                for ((name, shape), _) in bucket.iter().zip(had).filter(|(_, had)| *had) {
                    let shape = match &self.shards {
                        Some(shards) => charge(Account::Host, || shards.shard_shape(name)),
                        None => Some(shape.clone()),
                    };
                    let blank = shape.map(|shape| arrived(&shape, DType::F32, &self.device));
                    reduced.extend(blank.map(|blank| (name.clone(), blank)));
                }
            }
            // The device waits for the sum; the host does not.
            StartedSum::BetweenDevices(underway) => {
                if self.releases {
                    *marks = self.handshake(bucket.len())?;
                }
                parted(bucket, underway.resolve(), marks, &mut reduced);
                if let Some(shards) = &self.shards {
                    reduced = reduced
                        .into_iter()
                        .filter_map(|(name, whole)| Some((name.clone(), shards.of(&name, &whole)?)))
                        .collect();
                }
            }
        }
        for (name, _) in bucket {
            if let Some(earlier) = self.sums.remove(name) {
                let sum = match reduced.remove(name) {
                    Some(newest) => earlier.add(newest),
                    None => earlier,
                };
                reduced.insert(charge(Account::Host, || name.clone()), sum);
            }
        }
        Ok(reduced)
    }

    /// The sums of the first `count` marks over all ranks, which meet here; nothing without a collective.
    fn handshake(&mut self, count: usize) -> Result<VecDeque<f64>, EngineError> {
        if self.replicas.collective().is_none() {
            return Ok(VecDeque::new());
        }
        let marks: Vec<f64> = charge(Account::Host, || self.marks.drain(..count).collect());
        Ok(self.replicas.sum(&marks)?.into())
    }

    /// Waits for the sum of a bucket through host memory, and counts its time.
    fn awaited(&mut self, pending: Pending, index: usize, start: Instant) -> Result<Vec<f32>, EngineError> {
        let Arrived { mut values, took, finished, blocked, .. } =
            awaited(pending, GRADIENTS, Some(index), start)?;
        // While several all-reduces are in flight, time counts once.
        let since = |before| took.min(finished.saturating_duration_since(before));
        let alone = self.arrived.map_or(took, since);
        self.arrived = Some(finished);
        let [way, waited] = self.times.unwrap_or_default();
        self.times = Some([way + alone, waited + blocked]);
        // A share is shorter than what was given.
        charge(Account::Host, || values.shrink_to_fit());
        Ok(values)
    }
}

/// Waits for a collective that was started at `start`, and notes it on the tracks as `name`. This rank is idle until all ranks have
/// joined.
pub(super) fn awaited<T>(
    pending: Pending<T>,
    name: &'static str,
    index: Option<usize>,
    start: Instant,
) -> Result<Arrived<T>, EngineError> {
    let waits = Instant::now();
    let arrived = pending.wait()?;
    transfer(name, index, start, arrived.took);
    let met = start + arrived.took.saturating_sub(arrived.moving);
    if met > waits {
        track_was(TrackKind::Idle, WAITING, None, [waits, met]);
    }
    Ok(arrived)
}

/// Copies the gradients of a bucket from sums in host memory to the device.
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

/// The gradients of a bucket as one tensor `[elements]`, with zeros for missing gradients.
fn flat<'g>(
    gradients: impl Iterator<Item = (Option<AnyTensor>, &'g Vec<usize>)>,
    device: &Device,
    marks: &mut VecDeque<f64>,
) -> Tensor<1> {
    let mut parts = Vec::new();
    for (gradient, shape) in gradients {
        charge(Account::Host, || marks.push_back(f64::from(gradient.is_some())));
        parts.push(match gradient {
            Some(gradient) => gradient.flattened(),
            None => Tensor::zeros([shape.iter().product::<usize>()], device),
        });
    }
    Tensor::cat(parts, 0)
}

/// The gradients of a bucket from such a tensor, for parameters with a gradient on any rank.
fn parted(bucket: &Bucket, sums: Tensor<1>, marks: &mut VecDeque<f64>, reduced: &mut Named<AnyTensor>) {
    let mut start = 0;
    for ((name, shape), mark) in bucket.iter().zip(marks.drain(..bucket.len())) {
        let length: usize = shape.iter().product();
        if mark > 0.0 {
            let gradient = AnyTensor::from(sums.clone().narrow(0, start, length)).shaped(shape);
            reduced.insert(charge(Account::Host, || name.clone()), gradient);
        }
        start += length;
    }
}

fn write(gradient: Option<AnyTensor>, shape: &[usize], values: &mut Vec<f32>) -> Result<(), EngineError> {
    match gradient {
        Some(gradient) => {
            values.extend(gradient.to_host()?);
            values.push(1.0);
        }
        None => values.resize(values.len() + shape.iter().product::<usize>() + 1, 0.0),
    }
    Ok(())
}
