use burn_ir::OperationIr;
use oomph_core::ExecutionPoint;
use oomph_timeline::Category;

/// Recorded tensor operations of a training step, with notes about them. Nothing was executed.
#[derive(Debug, Default)]
pub struct Recording {
    /// The operations, in order.
    pub operations: Vec<OperationIr>,
    /// Notes between the operations, in order.
    pub notes: Vec<Note>,
    /// The model's stages, in order.
    pub stages: Vec<String>,
    /// Whether Burn's gradient checkpointing is on: backward recomputes single operations, and the graph holds their
    /// operands.
    pub is_checkpointed: bool,
    /// Whether the training thread is itself a compute thread, as it is on each of several CPU devices. Otherwise it is an
    /// additional thread.
    pub is_on_own_threads: bool,
    /// Which graphs a backward ends.
    pub graph_ends: GraphEnds,
}

/// Which of the autodiff graphs in flight a backward ends. A graph drops some tensors when its backward begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GraphEnds {
    /// All of them: a forward and the backward of its loss.
    #[default]
    Together,
    /// The oldest: forwards of several micro-batches come before the backward of the first, as in a pipeline.
    OldestFirst,
    /// First the newest, which is that of the loss, and then all: a coordinator computes the loss of gathered outputs.
    LossFirst,
}

/// A note that applies from a moment of a recording on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The id of a tensor created as a marker: ids only grow, so it marks the moment. The operation that created it is not
    /// part of the recording.
    pub at: u64,
    /// The content.
    pub what: Noted,
}

/// The content of a [`Note`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    /// The following operations run at this point.
    Point(ExecutionPoint),
    /// A step or an evaluation batch of this name begins.
    Step(String),
    /// The plan ends. Later operations only show which tensors outlive it.
    End,
    /// So many bytes of a category are in host memory now, instead of on the device.
    Offloaded {
        /// The category.
        category: Category,
        /// The bytes.
        bytes: u64,
    },
    /// Memory that is kept from now on and read by no operation.
    Kept {
        /// Its size.
        bytes: u64,
        /// Its name in reports.
        what: &'static str,
    },
    /// The category and name of a tensor.
    Held {
        /// The tensor's id.
        tensor: u64,
        /// Its category.
        category: Category,
        /// Its name.
        name: String,
    },
}

/// The smallest id among an operation's outputs. Ids only grow, so it tells which notes come before the operation.
pub(crate) fn first_output(operation: &OperationIr) -> Option<u64> {
    operation.outputs().map(|tensor| tensor.id.value()).min()
}
