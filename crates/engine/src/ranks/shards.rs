//! Tensors that are sharded over ranks, with `device.shard`.

use std::{ops::Range, sync::Arc};

use oomph_config::sections::sharing::Shard;
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Named, Stages};
use oomph_parallel::shard;

/// What is sharded, and over which ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardSettings {
    pub(crate) level: Shard,
    pub(crate) rank: usize,
    pub(crate) world_size: usize,
}

/// The sharded parameters of a training, seen from one rank.
///
/// A shard is a run of the elements of a parameter, in the parameter's number of dimensions: `[1, …, elements]`. So a model holds
/// shards in the places of its parameters, and the optimizer steps them as it steps parameters. Where this rank has no elements of a
/// parameter, its place has a single zero, which has no gradient and no state.
#[derive(Clone, Debug)]
pub(crate) struct Shards {
    settings: ShardSettings,
    whole: Arc<Named<Whole>>,
}

/// A whole parameter.
#[derive(Debug)]
struct Whole {
    shape: Vec<usize>,
    stage: usize,
}

impl Shards {
    /// The shards of the parameters of `model`, which are whole.
    pub(crate) fn new(settings: ShardSettings, model: &Stages) -> Self {
        let mut whole = Named::new();
        model.visit(&mut |info, tensor| {
            // Running statistics are not sharded. Frozen parameters have no state and no gradients.
            if info.trainable || info.frozen && settings.level >= Shard::Parameters {
                whole.insert(info.name.to_owned(), Whole { shape: tensor.dims(), stage: info.stage });
            }
        });
        Self { settings, whole: Arc::new(whole) }
    }

    /// Whether it is a parameter that is sharded.
    pub(crate) fn includes(&self, name: &str) -> bool {
        self.whole.contains_key(name)
    }

    /// Whether so much is sharded.
    pub(crate) fn has(&self, level: Shard) -> bool {
        self.settings.level >= level
    }

    /// The shapes of the whole parameters, by name.
    pub(crate) fn whole_shapes(&self) -> Arc<Named<Vec<usize>>> {
        let shape = |(name, whole): (&String, &Whole)| (name.clone(), whole.shape.clone());
        charge(Account::Host, || Arc::new(self.whole.iter().map(shape).collect()))
    }

    /// The names of the sharded parameters, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.whole.keys().map(String::as_str)
    }

    /// The number of ranks.
    pub(crate) fn world_size(&self) -> usize {
        self.settings.world_size
    }

    /// The shape of a whole parameter.
    pub(crate) fn shape(&self, name: &str) -> &[usize] {
        self.whole.get(name).map_or(&[], |whole| &whole.shape)
    }

    /// The stage of a parameter.
    pub(crate) fn stage(&self, name: &str) -> Option<usize> {
        self.whole.get(name).map(|whole| whole.stage)
    }

    /// The number of elements of a whole parameter.
    pub(crate) fn elements(&self, name: &str) -> usize {
        self.shape(name).iter().product()
    }

    /// The elements of a parameter that a rank holds.
    pub(crate) fn range_of(&self, name: &str, rank: usize) -> Range<usize> {
        shard(self.elements(name), rank, self.settings.world_size)
    }

    /// The elements of a parameter that this rank holds.
    pub(crate) fn range(&self, name: &str) -> Range<usize> {
        self.range_of(name, self.settings.rank)
    }

    /// The shape of this rank's shard of a parameter; `None` where it has no elements.
    pub(crate) fn shard_shape(&self, name: &str) -> Option<Vec<usize>> {
        let elements = self.range(name).len();
        let mut shape = vec![1; self.shape(name).len()];
        *shape.last_mut()? = elements;
        (elements > 0).then_some(shape)
    }

    /// This rank's shard of a plain tensor in the shape of the parameter, in memory of its own; `None` where it has no elements.
    pub(crate) fn of(&self, name: &str, tensor: &AnyTensor) -> Option<AnyTensor> {
        let shape = charge(Account::Host, || self.shard_shape(name))?;
        let range = self.range(name);
        let part = AnyTensor::from(tensor.clone().flattened().narrow(0, range.start, range.len()));
        // The planner sees the memory of a multiplication, and not that of a copy. A factor of 1 changes no bit. The caller holds the
        // whole tensor, so the product cannot overwrite its memory and keep it.
        Some(part.scale(1.0).shaped(&shape))
    }

    /// Puts this rank's shards into the places of the parameters of the stages that `is_wanted` accepts, and frees the parameters.
    pub(crate) fn divide(&self, model: &mut Stages, is_wanted: impl Fn(usize) -> bool) {
        oomph_model::map_stages(model, is_wanted, &mut |info, parameter| {
            if !self.includes(info.name) {
                return parameter;
            }
            match self.of(info.name, &parameter.clone().inner()) {
                Some(shard) => shard.tracked_like(&parameter, info.trainable),
                None => without_elements(&parameter, info.trainable),
            }
        });
    }
}

/// What stands in the place of a parameter of which this rank has no elements: one number, which no step reads.
pub(super) fn without_elements(parameter: &AnyTensor, trainable: bool) -> AnyTensor {
    let device = parameter.device().inner();
    AnyTensor::zeros(&vec![1; parameter.rank()], &device).tracked_like(parameter, trainable)
}
