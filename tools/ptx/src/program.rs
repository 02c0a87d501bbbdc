//! A kernel as it is executed: instructions with their operands resolved to register slots.
//!
//! Immediates and special registers are slots too, filled when a warp starts: an instruction reads every operand the
//! same way.

use crate::number::rounding::Round;

/// A slot of 32 bits a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u16);

/// A slot of 64 bits a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Long(pub(crate) u16);

/// A slot of one bit a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pred(pub(crate) u16);

/// Slots that hold no register.
impl Word {
    /// Where results without a register go.
    pub(crate) const SINK: Word = Word(0);
}

impl Long {
    /// Where results without a register go.
    pub(crate) const SINK: Long = Long(0);
}

impl Pred {
    /// True in all lanes.
    pub(crate) const TRUE: Pred = Pred(0);
    /// Where results without a register go.
    pub(crate) const SINK: Pred = Pred(1);
}

/// A slot of 32 or 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    Word(Word),
    Long(Long),
}

/// A predicate as it is or negated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) pred: Pred,
    /// All ones where the predicate is negated.
    pub(crate) flip: u32,
}

impl Condition {
    /// Always true.
    pub(crate) const ALWAYS: Condition = Condition { pred: Pred::TRUE, flip: 0 };
}

/// A slice of [`Code::lists`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) start: u32,
    pub(crate) len: u8,
}

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

/// State spaces of memory instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Parameter,
}

/// An address operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) space: Space,
    pub(crate) base: Slot,
    pub(crate) offset: i32,
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

/// What an instruction does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op {
    Words { op: IntBinary, int: Int, d: Word, a: Word, b: Word },
    Longs { op: IntBinary, signed: bool, d: Long, a: Long, b: Long },
    ShiftLong { op: IntBinary, signed: bool, d: Long, a: Long, by: Word },
    WordUnary { op: IntUnary, int: Int, d: Word, a: Word },
    LongUnary { op: IntUnary, d: Long, a: Long },
    CountWord { op: Count, d: Word, a: Word },
    CountLong { op: Count, d: Word, a: Long },
    MadWord { high: bool, int: Int, d: Word, a: Word, b: Word, c: Word },
    MadLong { high: bool, signed: bool, d: Long, a: Long, b: Long, c: Long },
    /// 16 × 16 + 32.
    WideWord { signed: bool, d: Word, a: Word, b: Word, c: Word },
    /// 32 × 32 + 64.
    WideLong { signed: bool, d: Long, a: Word, b: Word, c: Long },
    CarryWord { subtract: bool, carry_in: bool, carry_out: bool, d: Word, a: Word, b: Word },
    CarryLong { subtract: bool, carry_in: bool, carry_out: bool, d: Long, a: Long, b: Long },
    Permute { d: Word, a: Word, b: Word, selector: Word },
    Lop3 { d: Word, a: Word, b: Word, c: Word, table: u8 },
    Funnel { left: bool, wrap: bool, d: Word, low: Word, high: Word, by: Word },
    ExtractWord { signed: bool, d: Word, a: Word, position: Word, length: Word },
    ExtractLong { signed: bool, d: Long, a: Long, position: Word, length: Word },
    InsertWord { d: Word, field: Word, a: Word, position: Word, length: Word },
    InsertLong { d: Long, field: Long, a: Long, position: Word, length: Word },
    F32Binary { op: FloatBinary, mode: Mode, d: Word, a: Word, b: Word },
    F64Binary { op: FloatBinary, mode: Mode, d: Long, a: Long, b: Long },
    F32Unary { op: FloatUnary, mode: Mode, d: Word, a: Word },
    F64Unary { op: FloatUnary, mode: Mode, d: Long, a: Long },
    F32Fma { mode: Mode, d: Word, a: Word, b: Word, c: Word },
    F64Fma { mode: Mode, d: Long, a: Long, b: Long, c: Long },
    HalfBinary { op: FloatBinary, kind: HalfKind, pair: bool, mode: Mode, d: Word, a: Word, b: Word },
    HalfUnary { op: FloatUnary, kind: HalfKind, pair: bool, mode: Mode, d: Word, a: Word },
    HalfFma { kind: HalfKind, pair: bool, mode: Mode, d: Word, a: Word, b: Word, c: Word },
    TestF32 { test: Test, d: Pred, a: Word },
    TestF64 { test: Test, d: Pred, a: Long },
    SetPred { comparison: Comparison, d: Pred, not_d: Pred, logic: Logic, with: Condition },
    Set { comparison: Comparison, to: SetTo, d: Word, logic: Logic, with: Condition },
    SelectWord { d: Word, a: Word, b: Word, by: Pred },
    SelectLong { d: Long, a: Long, b: Long, by: Pred },
    PredLogic { op: Logic, d: Pred, a: Condition, b: Condition },
    MoveWord { d: Word, a: Word },
    MoveLong { d: Long, a: Long },
    /// Pieces of equal size, the first lowest, as one value.
    Pack { d: Slot, parts: List },
    /// A value as pieces of equal size, the first lowest.
    Unpack { a: Slot, parts: List },
    Convert { conversion: Conversion, d: Slot, a: Slot },
    /// Two binary32 as a pair of halves, `b` lowest.
    ConvertPair { kind: HalfKind, mode: Mode, d: Word, a: Word, b: Word },
    ConvertTf32 { away: bool, relu: bool, d: Word, a: Word },
    /// Between an address of a space and a generic one.
    ToGeneric { space: Space, d: Long, a: Long },
    FromGeneric { space: Space, d: Long, a: Long },
    IsSpace { space: Space, d: Pred, a: Long },
    Load { address: Address, bytes: u8, sign: bool, to: List },
    Store { address: Address, bytes: u8, from: List },
    Atomic { op: AtomicKind, ty: AtomicType, d: Slot, address: Address, b: Slot, c: Slot },
    CopyAsync { to: Address, from: Address, bytes: u8, length: Word },
    Branch { target: u32 },
    BranchTable { index: Word, start: u32, len: u32 },
    Exit,
    Trap,
    /// Lets the block's other warps run.
    Yield,
    Barrier { id: Word, threads: Option<Word> },
    BarrierArrive { id: Word },
    WarpBarrier { members: Word },
    Shuffle { mode: Shuffle, d: Word, in_range: Pred, a: Word, b: Word, clamp: Word, members: Word },
    Vote { vote: Vote, d: Pred, a: Condition, members: Word },
    Ballot { d: Word, a: Condition, members: Word },
    ActiveMask { d: Word },
    MatchAny { d: Word, a: Slot, members: Word },
    MatchAll { d: Word, all: Pred, a: Slot, members: Word },
    Redux { op: Reduction, d: Word, a: Word, members: Word },
    Elect { d: Word, elected: Pred, members: Word },
    LoadMatrix { address: Address, transpose: bool, to: List },
    StoreMatrix { address: Address, transpose: bool, from: List },
    /// The list holds D, A, B and C.
    Mma { shape: Shape, ab: Element, c: Element, d: Element, registers: List },
    FragmentLoad { shape: Shape, matrix: Matrix, element: Element, column_major: bool, address: Address, stride: Word, to: List },
    FragmentStore { shape: Shape, element: Element, column_major: bool, address: Address, stride: Word, from: List },
    /// The list holds D, A, B and C.
    FragmentMma { shape: Shape, ab: Element, c: Element, d: Element, registers: List },
    PhaseInit { address: Address, count: Word },
    PhaseArrive { d: Long, address: Address, count: Word },
    /// Whether the phase of a token, or of a parity, is over.
    PhaseTest { d: Pred, address: Address, token: Long },
    PhaseTestParity { d: Pred, address: Address, parity: Word },
}

/// An instruction with its guard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Instruction {
    pub(crate) guard: Condition,
    pub(crate) op: Op,
}

/// A kernel's instructions and all that a warp needs to start.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) instructions: Vec<Instruction>,
    /// The line of each instruction.
    pub(crate) lines: Vec<u32>,
    pub(crate) lists: Vec<Slot>,
    /// Targets of branch tables.
    pub(crate) targets: Vec<u32>,
    pub(crate) words: usize,
    pub(crate) longs: usize,
    pub(crate) preds: usize,
    pub(crate) word_constants: Vec<(Word, u32)>,
    pub(crate) long_constants: Vec<(Long, u64)>,
    pub(crate) specials: Vec<(Word, Special)>,
}

impl Code {
    /// The slots of a list.
    #[inline(always)]
    pub(crate) fn list(&self, list: List) -> &[Slot] {
        &self.lists[list.start as usize..][..usize::from(list.len)]
    }
}
