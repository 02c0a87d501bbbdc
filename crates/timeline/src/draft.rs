use oomph_core::Phase;

use crate::{Category, Name, Timeline};

/// A timeline before its blocks are classified: a recording, or the planner's replay.
/// [`assemble`](Self::assemble) completes it.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Everything known so far. The blocks may be in any order, their categories and tensors are ignored. The spans are
    /// steps and evaluation batches; a phase ends where one of them ends.
    pub timeline: Timeline,
    /// Phase and scope of each event; as long as the timeline's `times`.
    pub points: Vec<(Phase, Name)>,
    /// The tensors whose memory is known. If several name one block after the same event, the first counts.
    pub tensors: Vec<TensorLocation>,
    /// The names of the model's stages. They may contain dots.
    pub stages: Vec<String>,
}

/// After event `event`, the block that contains `address` holds this tensor. It has no effect if there is no such block.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorLocation {
    /// The event after which this holds.
    pub event: u32,
    /// An address in the block; in a plan, the block's own.
    pub address: u64,
    /// The tensor's category.
    pub category: Category,
    /// Its name, if it has one: `layer1.0.conv1.weight`.
    pub tensor: Name,
    /// Its shape; ignored if `dtype` is unknown.
    pub shape: Vec<usize>,
    /// Its element type. If unknown, the block keeps its own shape and element type.
    pub dtype: Name,
}
