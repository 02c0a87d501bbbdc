use oomph_core::Phase;

use crate::{Category, Name};

/// An allocation: memory that is in use from one event to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Its address. In a plan, a number that live blocks do not share.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// The purpose of the memory; [`Draft::assemble`](crate::Draft::assemble) sets it.
    pub category: Category,
    /// The event that allocated it.
    pub born: u32,
    /// The event that freed it; `None` if it outlives the timeline.
    pub died: Option<u32>,
    /// The phase it was allocated in.
    pub phase: Phase,
    /// Its stage, layer or user scope, such as `layer1.0.conv1`.
    pub scope: Name,
    /// The operation that allocated it, if known: `conv2d`.
    pub operation: Name,
    /// The tensor in it, if known: `layer1.0.conv1.weight`.
    pub tensor: Name,
    /// The tensor's shape, if known.
    pub shape: Vec<usize>,
    /// The element type, if known: `f32`.
    pub dtype: Name,
}

impl Block {
    /// A block that is never freed, in no phase or scope; its category is [`Category::Other`].
    pub fn new(address: u64, bytes: u64, born: u32) -> Self {
        Self {
            address,
            bytes,
            category: Category::Other,
            born,
            died: None,
            phase: Phase::Idle,
            scope: Name::NONE,
            operation: Name::NONE,
            tensor: Name::NONE,
            shape: Vec::new(),
            dtype: Name::NONE,
        }
    }
}
