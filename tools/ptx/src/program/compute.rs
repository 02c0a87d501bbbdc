//! Operations that compute each lane for itself.

use super::kinds::*;
use super::{Condition, List, Long, Pred, Slot, Word};

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
