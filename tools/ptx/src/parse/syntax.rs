//! A module as it is written: registers and symbols are resolved, instructions are not yet decoded.

use std::collections::HashMap;

/// A register of a function, as a number in order of declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Register(pub(crate) u32);

/// The file that holds a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// One bit a lane.
    Predicate,
    /// Up to 32 bits a lane; narrower registers are kept zero-extended.
    Word,
    /// 64 bits a lane.
    Long,
}

/// What a declaration says of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) class: Class,
    pub(crate) bits: u32,
}

/// An operand of an instruction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand<'a> {
    Register(Register),
    /// A label, a special register or a symbol.
    Name(&'a str),
    /// `symbol+8`
    Sum(&'a str, i64),
    Integer(u64),
    Single(u32),
    Double(f64),
    /// `!%p`
    Not(Register),
    /// `%r|%p`
    Pair(Box<Operand<'a>>, Box<Operand<'a>>),
    /// `{…}`
    Vector(Vec<Operand<'a>>),
    /// `[base+offset]`
    Address(Box<Operand<'a>>, i64),
    /// `_`
    Sink,
}

/// An instruction of a function's body.
#[derive(Debug, Clone)]
pub(crate) struct Statement<'a> {
    pub(crate) line: u32,
    pub(crate) guard: Option<(Register, bool)>,
    /// The opcode with its modifiers, as written.
    pub(crate) opcode: &'a str,
    pub(crate) operands: Vec<Operand<'a>>,
    /// The block it is in: labels are looked up from here outwards.
    pub(crate) scope: usize,
}

/// A place where data lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Symbol {
    /// An offset into the module's own data.
    Module(usize),
    /// An offset into the block's shared memory.
    Shared(usize),
    /// The start of the dynamic shared memory; its offset depends on all of the static shared memory.
    DynamicShared,
    /// An offset into the thread's local memory.
    Local(usize),
    /// An offset into the parameters.
    Parameter(usize),
}

/// A parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// A braced block: its parent and the labels in it.
#[derive(Debug, Default)]
pub(crate) struct Scope<'a> {
    pub(crate) parent: Option<usize>,
    pub(crate) labels: HashMap<&'a str, usize>,
    /// `.branchtargets` lists by their label.
    pub(crate) tables: HashMap<&'a str, Vec<&'a str>>,
}

/// A kernel as it is written.
#[derive(Debug, Default)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) max_threads: Option<u32>,
    pub(crate) registers: Vec<Declared>,
    pub(crate) symbols: HashMap<&'a str, Symbol>,
    pub(crate) shared_bytes: usize,
    pub(crate) local_bytes: usize,
    pub(crate) statements: Vec<Statement<'a>>,
    pub(crate) scopes: Vec<Scope<'a>>,
}

impl<'a> Function<'a> {
    /// The statement that a label stands before, seen from a block.
    pub(crate) fn label(&self, scope: usize, name: &str) -> Option<usize> {
        self.outwards(scope).find_map(|scope| scope.labels.get(name)).copied()
    }

    /// The labels of a branch table, seen from a block.
    pub(crate) fn table(&self, scope: usize, name: &str) -> Option<&[&'a str]> {
        self.outwards(scope).find_map(|scope| scope.tables.get(name)).map(Vec::as_slice)
    }

    fn outwards(&self, scope: usize) -> impl Iterator<Item = &Scope<'a>> {
        std::iter::successors(Some(scope), |&at| self.scopes[at].parent).map(|at| &self.scopes[at])
    }
}

/// Data of the module: `.global` and `.const` variables.
#[derive(Debug, Default)]
pub(crate) struct Data {
    pub(crate) bytes: Vec<u8>,
    /// Places that hold an address inside the data: where, and the offset it points to.
    pub(crate) pointers: Vec<(usize, usize)>,
}

/// All of a module.
#[derive(Debug, Default)]
pub(crate) struct Source<'a> {
    pub(crate) data: Data,
    pub(crate) symbols: HashMap<&'a str, Symbol>,
    pub(crate) functions: Vec<Function<'a>>,
}
