//! The all-gather of sharded parameters.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Instant,
};

use burn::tensor::{DType, Device, Tensor, distributed::CollectiveTensor};
use oomph_config::sections::sharing::Shard;
use oomph_kernels::offload::{arrived, left_device};
use oomph_memory::{Account, charge, record::track};
use oomph_model::{AnyTensor, Named, Stages, map_stages, visit_stages};
use oomph_parallel::group::{Gathered, Pending};
use oomph_timeline::TrackKind;

use super::{Bucket, Replicas, Shards, reduction::awaited};
use crate::{EngineError, optimizer::Optimizer};

/// The name of the all-gather on tracks.
const PARAMETERS: &str = "parameters";

/// The ranks that gather sharded parameters, and how these are sharded.
#[derive(Clone, Debug)]
pub struct Gatherer {
    pub(crate) shards: Shards,
    pub(crate) replicas: Replicas,
    pub(crate) device: Device,
    /// Whether operations execute. Otherwise they are recorded for a plan, without other ranks.
    pub(crate) executes: bool,
}

/// Parameters that are underway. Dropping it loses them; this rank has taken part.
pub(crate) struct Gathering {
    names: Vec<String>,
    started: Started,
}

enum Started {
    /// The all-gather and its start.
    ThroughHost(Pending<Gathered>, Instant),
    BetweenDevices(CollectiveTensor<1>),
    Recorded,
}

impl Gatherer {
    /// Starts the all-gather of the parameters `names`. `shards` are this rank's, off the graph; it has none of those whose shard
    /// is empty.
    ///
    /// # Errors
    /// If the device fails while a shard is copied to the host.
    pub(crate) fn start(
        &self,
        names: Vec<String>,
        mut shards: Named<AnyTensor>,
    ) -> Result<Gathering, EngineError> {
        let of = |name: &String| shards.remove(name);
        let started = match self.replicas.collective() {
            _ if !self.executes => {
                names.iter().filter_map(of).for_each(left_device);
                Started::Recorded
            }
            Some(collective) => {
                let parts: Vec<_> = charge(Account::Host, || names.iter().map(of).collect());
                Started::BetweenDevices(collective.start(self.padded(&names, parts)))
            }
            None => {
                let _track = track(TrackKind::Communication, PARAMETERS, None);
                let values = charge(Account::Host, || -> Result<_, EngineError> {
                    let mut values = Vec::new();
                    for shard in names.iter().filter_map(of) {
                        values.extend(shard.to_host()?);
                    }
                    Ok(values)
                })?;
                let start = Instant::now();
                let pending = charge(Account::Host, || self.replicas.group().start_all_gather(values));
                Started::ThroughHost(pending, start)
            }
        };
        Ok(Gathering { names, started })
    }

    /// The shards as one tensor of all elements, with zeros for those of other ranks. Its sum over all ranks has all parameters.
    fn padded(&self, names: &[String], shards: Vec<Option<AnyTensor>>) -> Tensor<1> {
        let mut parts = Vec::new();
        for (name, shard) in names.iter().zip(shards) {
            let (range, elements) = (self.shards.range(name), self.shards.elements(name));
            let shard = shard.map(AnyTensor::flattened);
            let zeros = |count: usize| (count > 0).then(|| Tensor::zeros([count], &self.device));
            parts.extend(zeros(range.start).into_iter().chain(shard).chain(zeros(elements - range.end)));
        }
        Tensor::cat(parts, 0)
    }

    /// Waits for the whole parameters.
    ///
    /// # Errors
    /// If a rank or a device fails.
    pub(crate) fn finish(&self, gathering: Gathering) -> Result<Named<AnyTensor>, EngineError> {
        let Gathering { names, started } = gathering;
        let _track = self.executes.then(|| track(TrackKind::Communication, PARAMETERS, None));
        let mut whole = Named::new();
        let mut add = |name: String, tensor: AnyTensor| {
            charge(Account::Host, || whole.insert(name, tensor));
        };
        match started {
            Started::Recorded => {
                for name in names {
                    let tensor = arrived(self.shards.shape(&name), DType::F32, &self.device);
                    add(name, tensor);
                }
            }
            Started::BetweenDevices(underway) => {
                // A device waits for the others without timeout. So ranks first meet on the host.
                self.replicas.group().barrier()?;
                let (values, mut start) = (underway.resolve(), 0);
                for name in names {
                    let length = self.shards.elements(&name);
                    // `values` lives on, so that the product is a copy.
                    let part = AnyTensor::from(values.clone().narrow(0, start, length)).scale(1.0);
                    add(name.clone(), part.shaped(self.shards.shape(&name)));
                    start += length;
                }
            }
            Started::ThroughHost(pending, start) => {
                let gathered = awaited(pending, PARAMETERS, None, start)?;
                let mut read = vec![0; gathered.values.len()];
                for name in names {
                    let tensor = self.joined(&name, &gathered.values, &mut read);
                    add(name, tensor);
                }
            }
        }
        Ok(whole)
    }

    /// A whole parameter from the shards of all ranks, which begin behind what was `read` of each.
    fn joined(&self, name: &str, gathered: &Gathered, read: &mut [usize]) -> AnyTensor {
        let elements = self.shards.elements(name);
        let mut values = Vec::with_capacity(elements);
        for (rank, (shards, read)) in gathered.iter().zip(read).enumerate() {
            let length = self.shards.range_of(name, rank).len();
            values.extend_from_slice(&shards[*read..*read + length]);
            *read += length;
        }
        AnyTensor::floats(values, &[elements], &self.device).shaped(self.shards.shape(name))
    }
}

/// Puts whole parameters into their places, in the stages that `is_wanted` accepts.
pub(crate) fn place(model: &mut Stages, is_wanted: impl Fn(usize) -> bool, mut whole: Named<AnyTensor>) {
    map_stages(model, is_wanted, &mut |info, shard| match whole.remove(info.name) {
        Some(whole) => whole.tracked_like(&shard, info.trainable),
        None => shard,
    });
}

/// This rank's shards in a model of shards, of the stages that `is_wanted` accepts: all names in order, and the shards that have
/// elements.
pub(crate) fn shards_in(
    model: &Stages,
    is_wanted: impl Fn(usize) -> bool,
    shards: &Shards,
) -> (Vec<String>, Named<AnyTensor>) {
    charge(Account::Host, || {
        let (mut names, mut own) = (Vec::new(), Named::new());
        visit_stages(model, is_wanted, &mut |info, tensor| {
            if shards.includes(info.name) {
                names.push(info.name.to_owned());
                if !shards.range(info.name).is_empty() {
                    own.insert(info.name.to_owned(), tensor.inner());
                }
            }
        });
        (names, own)
    })
}

/// Steps the shards of whole parameters, and gathers the parameters: with `device.shard = "optimizer"` and `"gradients"`.
///
/// While the parameters of one bucket are underway, the next bucket takes its step.
pub(crate) struct ShardStep {
    gatherer: Gatherer,
    underway: VecDeque<(BTreeSet<usize>, Gathering)>,
}

impl ShardStep {
    pub(crate) fn new(gatherer: Gatherer) -> Self {
        Self { gatherer, underway: VecDeque::new() }
    }

    /// Takes the step of the parameters of a bucket. `gradients` are whole, or shards where gradients are sharded.
    ///
    /// # Errors
    /// If a rank or a device fails.
    pub(crate) fn step(
        &mut self,
        optimizer: &mut Optimizer,
        lr: f64,
        model: &mut Stages,
        bucket: &Bucket,
        gradients: Named<AnyTensor>,
    ) -> Result<(), EngineError> {
        if bucket.is_empty() {
            return Ok(());
        }
        let shards = &self.gatherer.shards;
        let own = |(name, whole): (String, AnyTensor)| {
            let shard = shards.of(&name, &whole)?;
            Some((name, shard))
        };
        let gradients = match shards.has(Shard::Gradients) {
            true => gradients,
            false => gradients.into_iter().filter_map(own).collect(),
        };
        let stages: BTreeSet<usize> =
            charge(Account::Host, || bucket.iter().filter_map(|(name, _)| shards.stage(name)).collect());
        shards.divide(model, |stage| stages.contains(&stage));
        optimizer.step(lr, model, gradients);
        let (names, own) = shards_in(model, |stage| stages.contains(&stage), shards);
        let gathering = self.gatherer.start(names, own)?;
        charge(Account::Host, || self.underway.push_back((stages, gathering)));
        self.finish_all_but(1, model)
    }

    /// Waits for all parameters.
    ///
    /// # Errors
    /// If a rank or a device fails.
    pub(crate) fn end(&mut self, model: &mut Stages) -> Result<(), EngineError> {
        self.finish_all_but(0, model)
    }

    fn finish_all_but(&mut self, newest: usize, model: &mut Stages) -> Result<(), EngineError> {
        while self.underway.len() > newest
            && let Some((stages, gathering)) = self.underway.pop_front()
        {
            place(model, |stage| stages.contains(&stage), self.gatherer.finish(gathering)?);
        }
        Ok(())
    }
}
