//! A kernel as it is executed: instructions with their operands resolved to register slots.
//!
//! Immediates and special registers are slots too, filled when a warp starts: an instruction reads every operand the
//! same way.

mod compute;
mod kinds;
mod operation;

pub(crate) use compute::*;
pub(crate) use kinds::*;
pub(crate) use operation::*;

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
