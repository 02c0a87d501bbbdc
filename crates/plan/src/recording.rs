use burn_ir::OperationIr;
use oomph_core::Place;
use oomph_memory::Category;

/// The tensor operations of a stretch of training, recorded instead of executed, with notes of what they belong to.
#[derive(Debug, Default)]
pub struct Recording {
    /// The operations, in order.
    pub operations: Vec<OperationIr>,
    /// What was noted between them, in order.
    pub notes: Vec<Note>,
    /// The model's stages, in order.
    pub stages: Vec<String>,
    /// Whether the graph computes single operations again in backward, and holds what it would need for it: Burn's
    /// gradient checkpointing.
    pub is_checkpointed: bool,
    /// Whether the thread that trains is one of those that compute, as where one of several devices on the processor has
    /// threads of its own. Else it is one beside them.
    pub is_on_own_threads: bool,
}

/// Something that holds from a moment of a recording on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The identity of a tensor made for the purpose: identities only grow, so it marks the moment. The operation that
    /// made it is no part of the recording.
    pub at: u64,
    /// What holds.
    pub what: Noted,
}

/// What a [`Note`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    /// What follows is done there.
    Place(Place),
    /// A step or an evaluation batch of this name begins.
    Step(String),
    /// What follows is not part of the plan: it is there so that what outlives the plan is known to.
    End,
    /// So many bytes are kept from now on, which no operation reads.
    Kept {
        /// How many.
        bytes: u64,
        /// What they are.
        what: &'static str,
    },
    /// The tensor of this identity holds a tensor of this name.
    Held {
        /// The identity.
        tensor: u64,
        /// What it is for.
        category: Category,
        /// Its name.
        name: String,
    },
}
