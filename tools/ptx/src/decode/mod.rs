//! Statements to [`Code`]: one function a group of instructions, all operands resolved to slots.

mod allocate;
mod arithmetic;
mod barrier;
mod bitwise;
mod collective;
mod compare;
mod control;
mod convert;
mod liveness;
mod matrix;
mod memory;
mod modifiers;
mod movement;
mod operand;

use std::collections::HashMap;

use crate::error::PtxError;
use crate::parse::syntax::{Function, Statement};
use crate::program::{Code, Condition, ControlOp, Instruction, List, Long, Op, Pred, Slot, Special, Word};
use allocate::{Allocation, allocate};
use modifiers::Modifiers;

/// Where the parts of memory are that a kernel's addresses refer to.
pub(crate) struct Layout {
    /// The address of the module's own data.
    pub(crate) module_data: u64,
    /// The offset of dynamic shared memory.
    pub(crate) dynamic_shared: u64,
}

/// Decodes a kernel.
pub(crate) fn decode(function: &Function<'_>, layout: &Layout) -> Result<Code, PtxError> {
    let allocation = allocate(function)?;
    let mut decoder = Decoder::new(function, layout, allocation);
    for statement in &function.statements {
        decoder.starts.push(decoder.code.instructions.len() as u32);
        decoder.guard = decoder.guard_of(statement)?;
        let modifiers = Modifiers::of(statement);
        if let Some(op) = decoder.statement(statement, &modifiers)? {
            decoder.emit(op);
        }
    }
    // A body may end without `ret`.
    decoder.starts.push(decoder.code.instructions.len() as u32);
    decoder.guard = Condition::ALWAYS;
    decoder.line = function.statements.last().map_or(0, |statement| statement.line);
    decoder.emit(Op::Control(ControlOp::Exit));
    decoder.finish()
}

/// Decodes the statements of a kernel one after another.
struct Decoder<'f, 'a> {
    function: &'f Function<'a>,
    layout: &'f Layout,
    slots: Vec<Option<u16>>,
    code: Code,
    words: HashMap<u32, Word>,
    longs: HashMap<u64, Long>,
    specials: Vec<(Special, Word)>,
    /// The first instruction of every statement, and the end.
    starts: Vec<u32>,
    guard: Condition,
    line: u32,
}

impl<'f, 'a> Decoder<'f, 'a> {
    fn new(function: &'f Function<'a>, layout: &'f Layout, allocation: Allocation) -> Decoder<'f, 'a> {
        let Allocation { slots, words, longs, preds } = allocation;
        Decoder {
            function,
            layout,
            slots,
            code: Code { words, longs, preds, ..Code::default() },
            words: HashMap::new(),
            longs: HashMap::new(),
            specials: Vec::new(),
            starts: Vec::with_capacity(function.statements.len() + 1),
            guard: Condition::ALWAYS,
            line: 0,
        }
    }

    fn guard_of(&mut self, statement: &Statement<'a>) -> Result<Condition, PtxError> {
        self.line = statement.line;
        Ok(match statement.guard {
            Some((register, negated)) => {
                let slot = self.slots[register.0 as usize].unwrap_or(Pred::SINK.0);
                Condition { pred: Pred(slot), flip: if negated { u32::MAX } else { 0 } }
            }
            None => Condition::ALWAYS,
        })
    }

    fn emit(&mut self, op: Op) {
        self.code.instructions.push(Instruction { guard: self.guard, op });
        self.code.lines.push(self.line);
    }

    fn list(&mut self, slots: &[Slot]) -> List {
        let start = self.code.lists.len() as u32;
        self.code.lists.extend_from_slice(slots);
        List { start, len: slots.len() as u8 }
    }

    /// The operation of a statement; none where there is nothing to do.
    fn statement(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Option<Op>, PtxError> {
        let op = match m.head {
            "add" | "sub" | "mul" | "div" | "rem" | "min" | "max" | "mad" | "fma" | "neg" | "abs"
            | "copysign" | "sqrt" | "rsqrt" | "rcp" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "addc"
            | "subc" => self.arithmetic(s, m)?,
            "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "popc" | "clz" | "brev"
            | "bfind" | "bfe" | "bfi" | "prmt" | "lop3" => self.bitwise(s, m)?,
            "setp" | "set" | "selp" | "testp" => self.compare(s, m)?,
            "mov" | "cvta" | "isspacep" => self.movement(s, m)?,
            "cvt" => self.convert(s, m)?,
            "ld" | "ldu" | "st" | "atom" | "red" => self.memory(s, m)?,
            "cp" => return self.copy_async(s, m),
            "bra" | "brx" | "ret" | "exit" | "trap" => self.control(s, m)?,
            "bar" | "barrier" | "mbarrier" => return self.barrier(s, m),
            "shfl" | "vote" | "activemask" | "match" | "redux" | "elect" => self.collective(s, m)?,
            "mma" | "wmma" | "ldmatrix" | "stmatrix" => self.matrix(s, m)?,
            "nanosleep" => Op::Control(ControlOp::Yield),
            // One thread's accesses are in order here, and other blocks see them when they are made.
            "membar" | "fence" | "prefetch" | "prefetchu" | "griddepcontrol" | "discard" | "setmaxnreg"
            | "applypriority" => return Ok(None),
            _ => return Err(m.unsupported()),
        };
        Ok(Some(op))
    }

    /// Turns the targets of branches from statements to instructions.
    fn finish(mut self) -> Result<Code, PtxError> {
        for instruction in &mut self.code.instructions {
            if let Op::Control(ControlOp::Branch { target }) = &mut instruction.op {
                *target = self.starts[*target as usize];
            }
        }
        for target in &mut self.code.targets {
            *target = self.starts[*target as usize];
        }
        if self.code.words.max(self.code.longs) > usize::from(u16::MAX) {
            return Err(PtxError::TooManyRegisters { kernel: self.function.name.to_owned() });
        }
        Ok(self.code)
    }
}
