//! The combinations of levers that a search looks at.

use oomph_config::{
    Change, Config, MicroBatch, Precision, Recompute,
    sections::{fit::Allow, memory::Gradients, offload::Offload, optimizer::StateFormat, sharing::Shard},
};
use oomph_engine::session::Session;
use oomph_plan::Backend;

use crate::varied::varied;

/// The levers that a search may move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levers {
    micro_batch: bool,
    recompute: bool,
    gradients: bool,
    /// On GPUs alone: on the CPU the host's memory is the same.
    offload: bool,
    /// With several replicas.
    shard: bool,
    allow: Allow,
}

impl Levers {
    /// The levers whose keys have their defaults, and those that `memory.allow` names.
    pub(crate) fn of_config(session: &Session, backend: Backend) -> Self {
        let memory = &session.config.memory;
        Self {
            micro_batch: memory.micro_batch.is_none_or(|size| size == MicroBatch::Auto),
            allow: memory.allow,
            ..Self::that_keep_mathematics(session, backend)
        }
    }

    /// What a search chooses for every combination of switches.
    fn left(self) -> impl Iterator<Item = Change> {
        let left = [
            self.micro_batch.then_some(Change::MicroBatch(MicroBatch::Auto)),
            self.recompute.then_some(Change::Recompute(Recompute::Auto)),
        ];
        left.into_iter().flatten()
    }

    /// All levers that keep the mathematics and are not pulled yet. The micro-batch that the configuration sets may become smaller.
    pub(crate) fn that_keep_mathematics(session: &Session, backend: Backend) -> Self {
        let memory = &session.config.memory;
        Self {
            micro_batch: true,
            recompute: matches!(memory.recompute, Recompute::None | Recompute::Auto),
            gradients: memory.gradients == Gradients::Keep,
            offload: memory.offload == Offload::default() && !matches!(backend, Backend::Cpu { .. }),
            shard: shard_of(&session.config) == Some(Shard::None) && session.world_size() > 1,
            allow: Allow::default(),
        }
    }
}

/// `device.shard`, with replicas that can shard.
pub(super) fn shard_of(config: &Config) -> Option<Shard> {
    config.device.sharing.ddp().map(|ddp| ddp.shard)
}

/// Switches of levers, and the session with them. The micro-batch and the recomputed stages are left to `auto`.
pub(crate) struct Combination {
    /// The switches.
    pub(super) changes: Vec<Change>,
    pub(super) session: Session,
}

/// All combinations of switches that the configuration allows, those with few switches first.
pub(crate) fn combinations(session: &Session, levers: Levers) -> Vec<Combination> {
    let memory = &session.config.memory;
    let gradients = levers.gradients.then_some(Change::Gradients(Gradients::Release));
    let offload = Offload::ALL.into_iter().skip(1).filter(|_| levers.offload).map(Change::Offload);
    let precision = (levers.allow.bf16 && memory.precision == Precision::Fp32)
        .then_some(Change::Precision(Precision::Bf16));
    let states = [(levers.allow.bf16_state, StateFormat::Bf16), (levers.allow.int8_state, StateFormat::Int8)];
    let is_plain = session.config.optimizer.state == StateFormat::Fp32;
    let states = states.into_iter().filter(|(is_allowed, _)| *is_allowed && is_plain);
    let shard = Shard::ALL.into_iter().skip(1).filter(|_| levers.shard).map(Change::Shard);
    let switches: [Vec<Change>; 5] = [
        gradients.into_iter().collect(),
        offload.collect(),
        shard.collect(),
        precision.into_iter().collect(),
        states.map(|(_, format)| Change::State(format)).collect(),
    ];
    let mut all: Vec<Vec<Change>> = vec![Vec::new()];
    for switch in switches {
        let with = |one: &Vec<Change>| {
            switch.iter().map(|change| [&one[..], std::slice::from_ref(change)].concat()).collect()
        };
        let more: Vec<Vec<Change>> = all.iter().flat_map(|one| -> Vec<_> { with(one) }).collect();
        all.extend(more);
    }
    all.sort_by_key(Vec::len);
    let left: Vec<Change> = levers.left().collect();
    let of = |changes: Vec<Change>| {
        // What contradicts the configuration, or has nothing to work on, is no combination.
        let session = varied(session, &[&left[..], &changes].concat()).ok()?;
        Some(Combination { changes, session: Session { is_fitted: true, ..session } })
    };
    all.into_iter().filter_map(of).collect()
}

/// The sessions with most switches on, with released gradients and without, which may need less beside micro-batches; each with every
/// stage recomputed, and as the configuration has it.
pub(crate) fn strongest(session: &Session, backend: Backend) -> Vec<Session> {
    let levers = Levers::of_config(session, backend);
    let all = combinations(session, levers);
    let is_released = |it: &&Combination| it.session.config.memory.gradients == Gradients::Release;
    // Of those with as many switches the last has the strongest ones.
    let with = all.iter().filter(is_released).max_by_key(|it| it.changes.len());
    let without = all.iter().filter(|it| !is_released(it)).max_by_key(|it| it.changes.len());
    let of = |it: &Combination| {
        let stages =
            levers.recompute.then(|| varied(&it.session, &[Change::Recompute(Recompute::Stages)]).ok());
        let plain = match levers.recompute {
            // Without recompute no input waits in host memory.
            true => varied(&it.session, &[Change::Recompute(Recompute::None)]).ok(),
            false => Some(it.session.clone()),
        };
        stages.flatten().into_iter().chain(plain).collect::<Vec<_>>()
    };
    with.into_iter().chain(without).flat_map(of).collect()
}
