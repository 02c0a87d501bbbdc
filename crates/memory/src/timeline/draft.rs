use oomph_core::{Bytes, Phase};

use super::{Category, Clock, Name, Names, Origin, Span};

/// A timeline before it is known what each block is for: what a recording saw, or what a planner replayed.
/// [`assemble`](Self::assemble) makes it a [`Timeline`](super::Timeline).
#[derive(Clone, Debug)]
pub struct Draft {
    /// Predicted or seen.
    pub origin: Origin,
    /// For the head of a report: `resnet18 · batch 32 · sgd`.
    pub title: String,
    /// The device, such as `cpu` or `cuda:0`.
    pub device: String,
    /// What the device may use, where that is known.
    pub limit_bytes: Option<Bytes>,
    /// The unit of `times`.
    pub clock: Clock,
    /// The time of each event; event 0 is the start.
    pub times: Vec<u64>,
    /// Phase and scope of each event; as long as `times`.
    pub places: Vec<(Phase, Name)>,
    /// Steps and evaluation batches. Phases end where one of them ends.
    pub steps: Vec<Span>,
    /// All blocks, in any order.
    pub blocks: Vec<RawBlock>,
    /// What is known of what lies where. Of several that name one block after the same event the first counts.
    pub held: Vec<Held>,
    /// The names of the model's stages. They may contain dots.
    pub stages: Vec<String>,
    /// The texts of the names above.
    pub names: Names,
    /// Older events that the recording no longer had.
    pub lost_events: u64,
}

/// A stretch of memory from its allocation to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct RawBlock {
    /// Where it lies. In a plan, a number that live blocks do not share.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// The event that made it.
    pub born: u32,
    /// The event that freed it; `None` where it outlived the timeline.
    pub died: Option<u32>,
    /// The phase it was born in.
    pub phase: Phase,
    /// The scope it was born in.
    pub scope: Name,
    /// The operation that made it, where known: `conv2d`.
    pub operation: Name,
    /// The shape of the tensor in it, where known.
    pub shape: Vec<usize>,
    /// The element type, where known: `f32`.
    pub dtype: Name,
}

/// Says that after event `event` the block that contains `address` holds a tensor. Where there is no such block it says
/// nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The event after which this is so.
    pub event: u32,
    /// An address in the block; in a plan, the block's own.
    pub address: u64,
    /// What the tensor is for.
    pub category: Category,
    /// Its name, where it has one: `layer1.0.conv1.weight`.
    pub tensor: Name,
    /// Its shape; counts where `dtype` is known.
    pub shape: Vec<usize>,
    /// Its element type; where that is not known, shape and element type are the block's.
    pub dtype: Name,
}
