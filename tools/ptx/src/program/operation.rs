//! The operations, by what executes them.

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

/// Integer arithmetic and logic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum IntegerOp {
    Words {
        op: IntBinary,
        int: Int,
        d: Word,
        a: Word,
        b: Word,
    },
    Longs {
        op: IntBinary,
        signed: bool,
        d: Long,
        a: Long,
        b: Long,
    },
    ShiftLong {
        op: IntBinary,
        signed: bool,
        d: Long,
        a: Long,
        by: Word,
    },
    WordUnary {
        op: IntUnary,
        int: Int,
        d: Word,
        a: Word,
    },
    LongUnary {
        op: IntUnary,
        d: Long,
        a: Long,
    },
    CountWord {
        op: Count,
        d: Word,
        a: Word,
    },
    CountLong {
        op: Count,
        d: Word,
        a: Long,
    },
    MadWord {
        high: bool,
        int: Int,
        d: Word,
        a: Word,
        b: Word,
        c: Word,
    },
    MadLong {
        high: bool,
        signed: bool,
        d: Long,
        a: Long,
        b: Long,
        c: Long,
    },
    /// 16 × 16 + 32.
    WideWord {
        signed: bool,
        d: Word,
        a: Word,
        b: Word,
        c: Word,
    },
    /// 32 × 32 + 64.
    WideLong {
        signed: bool,
        d: Long,
        a: Word,
        b: Word,
        c: Long,
    },
    CarryWord {
        subtract: bool,
        carry_in: bool,
        carry_out: bool,
        d: Word,
        a: Word,
        b: Word,
    },
    CarryLong {
        subtract: bool,
        carry_in: bool,
        carry_out: bool,
        d: Long,
        a: Long,
        b: Long,
    },
    Permute {
        d: Word,
        a: Word,
        b: Word,
        selector: Word,
    },
    Lop3 {
        d: Word,
        a: Word,
        b: Word,
        c: Word,
        table: u8,
    },
    Funnel {
        left: bool,
        wrap: bool,
        d: Word,
        low: Word,
        high: Word,
        by: Word,
    },
    ExtractWord {
        signed: bool,
        d: Word,
        a: Word,
        position: Word,
        length: Word,
    },
    ExtractLong {
        signed: bool,
        d: Long,
        a: Long,
        position: Word,
        length: Word,
    },
    InsertWord {
        d: Word,
        field: Word,
        a: Word,
        position: Word,
        length: Word,
    },
    InsertLong {
        d: Long,
        field: Long,
        a: Long,
        position: Word,
        length: Word,
    },
}

/// Float arithmetic and conversions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FloatOp {
    F32Binary {
        op: FloatBinary,
        mode: Mode,
        d: Word,
        a: Word,
        b: Word,
    },
    F64Binary {
        op: FloatBinary,
        mode: Mode,
        d: Long,
        a: Long,
        b: Long,
    },
    F32Unary {
        op: FloatUnary,
        mode: Mode,
        d: Word,
        a: Word,
    },
    F64Unary {
        op: FloatUnary,
        mode: Mode,
        d: Long,
        a: Long,
    },
    F32Fma {
        mode: Mode,
        d: Word,
        a: Word,
        b: Word,
        c: Word,
    },
    F64Fma {
        mode: Mode,
        d: Long,
        a: Long,
        b: Long,
        c: Long,
    },
    HalfBinary {
        op: FloatBinary,
        kind: HalfKind,
        pair: bool,
        mode: Mode,
        d: Word,
        a: Word,
        b: Word,
    },
    HalfUnary {
        op: FloatUnary,
        kind: HalfKind,
        pair: bool,
        mode: Mode,
        d: Word,
        a: Word,
    },
    HalfFma {
        kind: HalfKind,
        pair: bool,
        mode: Mode,
        d: Word,
        a: Word,
        b: Word,
        c: Word,
    },
    TestF32 {
        test: Test,
        d: Pred,
        a: Word,
    },
    TestF64 {
        test: Test,
        d: Pred,
        a: Long,
    },
    Convert {
        conversion: Conversion,
        d: Slot,
        a: Slot,
    },
    /// Two binary32 as a pair of halves, `b` lowest.
    ConvertPair {
        kind: HalfKind,
        mode: Mode,
        d: Word,
        a: Word,
        b: Word,
    },
    ConvertTf32 {
        away: bool,
        relu: bool,
        d: Word,
        a: Word,
    },
}

/// Comparisons, selections and moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum DataOp {
    SetPred {
        comparison: Comparison,
        d: Pred,
        not_d: Pred,
        logic: Logic,
        with: Condition,
    },
    Set {
        comparison: Comparison,
        to: SetTo,
        d: Word,
        logic: Logic,
        with: Condition,
    },
    SelectWord {
        d: Word,
        a: Word,
        b: Word,
        by: Pred,
    },
    SelectLong {
        d: Long,
        a: Long,
        b: Long,
        by: Pred,
    },
    PredLogic {
        op: Logic,
        d: Pred,
        a: Condition,
        b: Condition,
    },
    MoveWord {
        d: Word,
        a: Word,
    },
    MoveLong {
        d: Long,
        a: Long,
    },
    /// Pieces of equal size, the first lowest, as one value.
    Pack {
        d: Slot,
        parts: List,
    },
    /// A value as pieces of equal size, the first lowest.
    Unpack {
        a: Slot,
        parts: List,
    },
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
