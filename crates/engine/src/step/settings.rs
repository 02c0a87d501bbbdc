use oomph_config::{
    DeviceName, Optimizer as OptimizerSettings, Precision,
    sections::{memory::Gradients, offload::Offload, sharing::Shard},
};
use oomph_core::{Bytes, Key};
use oomph_model::Policy;

use crate::{
    average::AverageRule,
    part::UndoMode,
    ranks::ShardSettings,
    session::{Session, StepSplit},
};

/// The settings that all steps of a training share.
#[derive(Clone, Debug)]
pub struct StepSettings {
    /// Precision and kernels.
    pub(crate) policy: Policy,
    /// The optimizer with its settings, and clipping.
    pub(crate) optimizer: OptimizerSettings,
    /// The average of the weights, if there is one.
    pub(crate) average: Option<AverageRule>,
    /// The micro-batch, and the stages that recompute.
    pub(crate) split: StepSplit,
    /// The number of frozen stages before the first trained stage.
    pub(crate) leading_frozen: usize,
    /// The size of gradient buckets, if there are other ranks.
    pub(crate) bucket_bytes: Option<Bytes>,
    /// What is sharded over the ranks, if something is: `device.shard`.
    pub(crate) shard: Option<ShardSettings>,
    /// Whether gradients are released in backward: `memory.gradients`.
    pub(crate) releases: bool,
    /// The tokens of a chunk of the loss, if it is computed by chunks: `memory.loss_chunk`.
    pub(crate) loss_chunk: Option<usize>,
    /// What lies in host memory: `memory.offload`.
    pub(crate) offload: Offload,
    /// Whether batch normalisation shares its statistics with the other ranks.
    pub(crate) shares_statistics: bool,
    /// Whether recurrent layers carry their state from step to step.
    pub(crate) is_continuous: bool,
    /// How a failed or skipped step is undone.
    pub(crate) undo: UndoMode,
    /// The key of the random numbers of all steps.
    pub(crate) key: Key,
}

impl StepSettings {
    /// The settings of a session with the precision and kernels of `policy`.
    pub fn new(session: &Session, policy: Policy, split: StepSplit) -> Self {
        let (config, rank) = (&session.config, session.replicas.rank());
        let ddp = config.device.sharing.ddp();
        let has_ranks = session.world_size() > 1 || session.replicas.reduce();
        let key = Key::new(config.train.seed).with_name("step");
        Self {
            policy,
            optimizer: config.optimizer.clone(),
            average: AverageRule::of(session),
            split,
            leading_frozen: session.leading_frozen,
            bucket_bytes: ddp.filter(|_| has_ranks).map(|ddp| ddp.bucket),
            shard: ddp
                .filter(|ddp| ddp.shard > Shard::None && session.world_size() > 1)
                .map(|ddp| ShardSettings { level: ddp.shard, rank, world_size: session.world_size() }),
            releases: config.memory.gradients == Gradients::Release,
            loss_chunk: config.memory.loss_chunk,
            offload: config.memory.offload,
            shares_statistics: ddp.is_some_and(|ddp| ddp.sync_batch_norm),
            is_continuous: session.source.is_continuous(),
            undo: match config.device.devices[0] {
                DeviceName::Cpu => UndoMode::Copies,
                // The memory of a failed GPU cannot be trusted. After an overflow it can, so references suffice.
                DeviceName::Cuda(_) if policy.precision == Precision::Fp16 => UndoMode::References,
                DeviceName::Cuda(_) | DeviceName::Vulkan(_) => UndoMode::Nothing,
            },
            // Rank 0 draws the same random numbers as a single device.
            key: if rank == 0 { key } else { key.with_name("rank").with(rank as u64) },
        }
    }
}
