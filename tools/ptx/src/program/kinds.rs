//! The small choices of operations: types, relations, modes.

use super::{Long, Word};
use crate::number::rounding::Round;

/// Integer types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Int {
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
}

/// Numbers as `cvt` and `atom` name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Int { bits: u8, signed: bool },
    F16,
    Bf16,
    F32,
    F64,
}

/// A 16-bit float format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HalfKind {
    F16,
    Bf16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntBinary {
    Add,
    Sub,
    Mul,
    MulHigh,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntUnary {
    Neg,
    Abs,
    Not,
    LogicalNot,
    Reverse,
}

/// Counts of bits: 32-bit results of 32 or 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    Population,
    LeadingZeros,
    /// The highest bit that differs from the sign; the flag asks for the shift that brings it to the top.
    Find {
        signed: bool,
        shift: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FloatBinary {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    CopySign,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FloatUnary {
    Neg,
    Abs,
    Sqrt,
    InverseSqrt,
    Reciprocal,
    Exp2,
    Log2,
    Sin,
    Cos,
    Tanh,
}

/// Modifiers of float instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mode {
    pub(crate) round: Round,
    /// Subnormal operands and results become zeros of their sign.
    pub(crate) flush: bool,
    /// The result is clamped to 0..1, NaN to 0.
    pub(crate) saturate: bool,
    /// `min` and `max` of a NaN are NaN.
    pub(crate) keep_nan: bool,
    /// Negative results become 0.
    pub(crate) relu: bool,
}

/// Comparisons. Unsigned and unordered forms are told apart by the operands' type and [`Comparison::unordered`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Neither is a NaN.
    Ordered,
    /// One is a NaN.
    Unordered,
}

/// A comparison of `setp` and `set`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) relation: Relation,
    /// True where an operand is a NaN.
    pub(crate) unordered: bool,
    pub(crate) flush: bool,
    pub(crate) operands: Operands,
}

/// The operands of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operands {
    Words { int: Int, a: Word, b: Word },
    Longs { signed: bool, a: Long, b: Long },
    F32 { a: Word, b: Word },
    F64 { a: Long, b: Long },
    Half { kind: HalfKind, a: Word, b: Word },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
}

/// The result of `set`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetTo {
    /// All ones.
    Ones,
    /// These bits, the type's 1.
    One(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Test {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// Rounding to an integral value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Integral {
    Nearest,
    Zero,
    Down,
    Up,
}

/// `cvt` between two types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(crate) to: Number,
    pub(crate) from: Number,
    pub(crate) mode: Mode,
    pub(crate) integral: Option<Integral>,
    /// Bits of the destination register, which a narrower signed result fills with its sign.
    pub(crate) fill: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtomicKind {
    Add,
    Min,
    Max,
    Exchange,
    CompareAndSwap,
    And,
    Or,
    Xor,
    Increment,
    Decrement,
}

/// The type that an atomic operation works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtomicType {
    Int(Int),
    F32,
    F64,
    Half(HalfKind),
    /// Two halves, each atomic for itself.
    HalfPair(HalfKind),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Index,
    Up,
    Down,
    Butterfly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
}

/// Operations of `redux`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Add,
    Min { signed: bool },
    Max { signed: bool },
    And,
    Or,
    Xor,
}

/// What a matrix fragment's elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    Tf32,
    F32,
}

/// Which matrix of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Matrix {
    A,
    B,
    Accumulator,
}

impl Element {
    /// Bytes of one element.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Element::F16 | Element::Bf16 => 2,
            Element::Tf32 | Element::F32 => 4,
        }
    }
}

/// Rows of A, columns of B and their common dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) m: u8,
    pub(crate) n: u8,
    pub(crate) k: u8,
}

impl Shape {
    /// Rows and columns of a matrix.
    pub(crate) fn of(self, matrix: Matrix) -> (usize, usize) {
        let (m, n, k) = (usize::from(self.m), usize::from(self.n), usize::from(self.k));
        match matrix {
            Matrix::A => (m, k),
            Matrix::B => (k, n),
            Matrix::Accumulator => (m, n),
        }
    }

    /// Registers that a lane's elements of a matrix fill.
    pub(crate) fn registers(self, matrix: Matrix, element: Element) -> usize {
        let (rows, columns) = self.of(matrix);
        rows * columns / 32 * element.bytes() / 4
    }
}

/// Special registers that have a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    /// `%tid`
    Thread(u8),
    /// `%ntid`
    BlockSize(u8),
    /// `%ctaid`
    Block(u8),
    /// `%nctaid`
    GridSize(u8),
    Lane,
    Warp,
    WarpCount,
    LaneMaskEqual,
    LaneMaskLess,
    LaneMaskLessEqual,
    LaneMaskGreater,
    LaneMaskGreaterEqual,
    DynamicSharedBytes,
    TotalSharedBytes,
}
