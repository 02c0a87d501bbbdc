//! The operations, by what executes them: those that compute are in [`super::compute`].

use super::compute::*;
use super::kinds::*;
use super::{Address, Condition, List, Long, Pred, Slot, Space, Word};

/// What an instruction does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op {
    Integer(IntegerOp),
    Float(FloatOp),
    Data(DataOp),
    Memory(MemoryOp),
    Exchange(ExchangeOp),
    Matrix(MatrixOp),
    Control(ControlOp),
}

/// Accesses to memory, and addresses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MemoryOp {
    Load {
        address: Address,
        bytes: u8,
        sign: bool,
        to: List,
    },
    Store {
        address: Address,
        bytes: u8,
        from: List,
    },
    Atomic {
        op: AtomicKind,
        ty: AtomicType,
        d: Slot,
        address: Address,
        b: Slot,
        c: Slot,
    },
    CopyAsync {
        to: Address,
        from: Address,
        bytes: u8,
        length: Word,
    },
    /// Between an address of a space and a generic one.
    ToGeneric {
        space: Space,
        d: Long,
        a: Long,
    },
    FromGeneric {
        space: Space,
        d: Long,
        a: Long,
    },
    IsSpace {
        space: Space,
        d: Pred,
        a: Long,
    },
    PhaseInit {
        address: Address,
        count: Word,
    },
    PhaseArrive {
        d: Long,
        address: Address,
        count: Word,
    },
    /// Whether the phase of a token, or of a parity, is over.
    PhaseTest {
        d: Pred,
        address: Address,
        token: Long,
    },
    PhaseTestParity {
        d: Pred,
        address: Address,
        parity: Word,
    },
}

/// What lanes of a warp learn of each other; all named members take part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ExchangeOp {
    WarpBarrier { members: Word },
    Shuffle { mode: Shuffle, d: Word, in_range: Pred, a: Word, b: Word, clamp: Word, members: Word },
    Vote { vote: Vote, d: Pred, a: Condition, members: Word },
    Ballot { d: Word, a: Condition, members: Word },
    MatchAny { d: Word, a: Slot, members: Word },
    MatchAll { d: Word, all: Pred, a: Slot, members: Word },
    Redux { op: Reduction, d: Word, a: Word, members: Word },
    Elect { d: Word, elected: Pred, members: Word },
}

/// Tensor-core instructions; all lanes take part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MatrixOp {
    LoadMatrix {
        address: Address,
        transpose: bool,
        to: List,
    },
    StoreMatrix {
        address: Address,
        transpose: bool,
        from: List,
    },
    /// The list holds D, A, B and C.
    Mma {
        shape: Shape,
        ab: Element,
        c: Element,
        d: Element,
        registers: List,
    },
    FragmentLoad {
        shape: Shape,
        matrix: Matrix,
        element: Element,
        column_major: bool,
        address: Address,
        stride: Word,
        to: List,
    },
    FragmentStore {
        shape: Shape,
        element: Element,
        column_major: bool,
        address: Address,
        stride: Word,
        from: List,
    },
    /// The list holds D, A, B and C.
    FragmentMma {
        shape: Shape,
        ab: Element,
        c: Element,
        d: Element,
        registers: List,
    },
}

/// Where lanes go on, and whether.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ControlOp {
    Branch {
        target: u32,
    },
    BranchTable {
        index: Word,
        start: u32,
        len: u32,
    },
    Exit,
    Trap,
    /// Lets the block's other warps run.
    Yield,
    Barrier {
        id: Word,
        threads: Option<Word>,
    },
    BarrierArrive {
        id: Word,
    },
    ActiveMask {
        d: Word,
    },
    /// Nanoseconds that have passed.
    Clock {
        d: Slot,
    },
}

impl ExchangeOp {
    /// The lanes that take part.
    pub(crate) fn members(self) -> Word {
        match self {
            ExchangeOp::WarpBarrier { members }
            | ExchangeOp::Shuffle { members, .. }
            | ExchangeOp::Vote { members, .. }
            | ExchangeOp::Ballot { members, .. }
            | ExchangeOp::MatchAny { members, .. }
            | ExchangeOp::MatchAll { members, .. }
            | ExchangeOp::Redux { members, .. }
            | ExchangeOp::Elect { members, .. } => members,
        }
    }
}
