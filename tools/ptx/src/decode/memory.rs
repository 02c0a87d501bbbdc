//! Loads, stores, atomics and asynchronous copies.

use super::Decoder;
use super::modifiers::{Modifiers, Type};
use crate::error::PtxError;
use crate::parse::syntax::{Operand, Statement};
use crate::program::{
    Address, AtomicKind, AtomicType, Conversion, DataOp, FloatOp, Int, List, Long, MemoryOp, Mode, Number,
    Op, Slot, Space, Word,
};

/// What of an access has no meaning here: one thread's accesses are in order, and there are no caches.
const IGNORED: &[&str] = &[
    "volatile",
    "relaxed",
    "acquire",
    "release",
    "acq_rel",
    "weak",
    "cta",
    "gpu",
    "sys",
    "cluster",
    "nc",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "noftz",
];

const SPACES: &[&str] =
    &["global", "const", "shared", "shared::cta", "local", "param", "param::entry", "v2", "v4", "v8"];

const OPERATIONS: &[(&str, AtomicKind)] = &[
    ("add", AtomicKind::Add),
    ("min", AtomicKind::Min),
    ("max", AtomicKind::Max),
    ("exch", AtomicKind::Exchange),
    ("cas", AtomicKind::CompareAndSwap),
    ("and", AtomicKind::And),
    ("or", AtomicKind::Or),
    ("xor", AtomicKind::Xor),
    ("inc", AtomicKind::Increment),
    ("dec", AtomicKind::Decrement),
];

impl<'a> Decoder<'_, 'a> {
    pub(super) fn memory(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        if matches!(m.head, "atom" | "red") {
            return self.atomic(s, m);
        }
        let known = |part: &&str| IGNORED.contains(part) || SPACES.contains(part);
        if !m.rest.iter().all(known) {
            return Err(m.unsupported());
        }
        self.takes(s, m, 2..=2)?;
        let ty = m.ty()?;
        let bytes = ty.bits() / 8;
        let (value, address) = if m.head == "st" { (1, 0) } else { (0, 1) };
        let count = [("v2", 2), ("v4", 4), ("v8", 8)].iter().find(|(name, _)| m.has(name)).map_or(1, |v| v.1);
        let parts = self.parts(s, value);
        if parts.len() != count {
            return Err(self.misfit(s, value, "as many registers as the vector has elements"));
        }
        let address = self.address(s, address, m.space())?;
        if m.head == "st" {
            let mut slots = Vec::new();
            for part in parts {
                slots.push(self.stored(s, part, ty)?);
            }
            return Ok(Op::Memory(MemoryOp::Store { address, bytes, from: self.list(&slots) }));
        }
        let mut slots = Vec::new();
        for part in parts {
            slots.push(self.to_slot(s, 0, part, ty.bits())?);
        }
        let sign = matches!(ty, Type::Int { signed: true, .. });
        let to = self.list(&slots);
        match parts.first().and_then(|part| self.declared_bits(part)) {
            Some(declared) if sign && declared == 16 && bytes == 1 => self.load_narrow(address, to, &slots),
            declared => {
                let sign = sign && declared.is_some_and(|declared| declared > u32::from(ty.bits()));
                Ok(Op::Memory(MemoryOp::Load { address, bytes, sign, to }))
            }
        }
    }

    /// Signed bytes into registers of 16 bits, which are kept zero-extended: the load, and then conversions.
    fn load_narrow(&mut self, address: Address, to: List, slots: &[Slot]) -> Result<Op, PtxError> {
        self.emit(Op::Memory(MemoryOp::Load { address, bytes: 1, sign: false, to }));
        let conversion = Conversion {
            to: Number::Int { bits: 16, signed: true },
            from: Number::Int { bits: 8, signed: true },
            mode: Mode::default(),
            integral: None,
            fill: 16,
        };
        let convert = |slot| Op::Float(FloatOp::Convert { conversion, d: slot, a: slot });
        let (&last, others) = slots.split_last().unwrap_or((&Slot::Word(Word::SINK), &[]));
        others.iter().for_each(|&slot| self.emit(convert(slot)));
        Ok(convert(last))
    }

    /// A value to store, from a register that may be wider than the type.
    fn stored(&mut self, s: &Statement<'a>, part: &Operand<'a>, ty: Type) -> Result<Slot, PtxError> {
        let long = self.declared_bits(part).map_or(ty.bits() == 64, |bits| bits == 64);
        Ok(if long {
            Slot::Long(self.long_of(s, 1, part)?)
        } else {
            Slot::Word(self.word_of(s, 1, part, ty)?)
        })
    }

    fn atomic(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        let op = m.pick(OPERATIONS)?;
        let known = |part: &&str| {
            IGNORED.contains(part)
                || ["global", "shared", "shared::cta"].contains(part)
                || OPERATIONS.iter().any(|(name, _)| name == part)
        };
        if !m.rest.iter().all(known) {
            return Err(m.unsupported());
        }
        let first = usize::from(m.head == "atom");
        let operands = if op == AtomicKind::CompareAndSwap { 3 } else { 2 };
        self.takes(s, m, first + operands..=first + operands)?;
        let ty = m.ty()?;
        let atomic_type = match ty {
            Type::F32 => AtomicType::F32,
            Type::F64 => AtomicType::F64,
            Type::Half(kind) => AtomicType::Half(kind),
            Type::HalfPair(kind) => AtomicType::HalfPair(kind),
            _ => AtomicType::Int(m.int()?),
        };
        if !fits(op, atomic_type) {
            return Err(m.unsupported());
        }
        let address = self.address(s, first, m.space())?;
        let b = self.value(s, first + 1, ty)?;
        let c = if operands == 3 { self.value(s, first + 2, ty)? } else { b };
        let d = match (m.head, ty.bits()) {
            ("atom", bits) => self.to_slot(s, 0, self.operand(s, 0), bits)?,
            (_, 64) => Slot::Long(Long::SINK),
            _ => Slot::Word(Word::SINK),
        };
        Ok(Op::Memory(MemoryOp::Atomic { op, ty: atomic_type, d, address, b, c }))
    }

    pub(super) fn copy_async(
        &mut self,
        s: &Statement<'a>,
        m: &Modifiers<'a>,
    ) -> Result<Option<Op>, PtxError> {
        if !m.has("async") || m.has("bulk") {
            return Err(m.unsupported());
        }
        // Copies are complete as soon as they are made: there is nothing to group or to wait for.
        if m.has("commit_group") || m.has("wait_group") || m.has("wait_all") {
            return Ok(None);
        }
        if m.has("mbarrier") {
            return self.copy_async_arrive(s, m);
        }
        let spaces = ["async", "shared", "shared::cta", "global"];
        if !m.rest.iter().all(|part| spaces.contains(part) || IGNORED.contains(part)) {
            return Err(m.unsupported());
        }
        self.takes(s, m, 3..=4)?;
        let bytes = match *self.operand(s, 2) {
            Operand::Integer(bytes @ (4 | 8 | 16)) => bytes as u8,
            _ => return Err(self.misfit(s, 2, "4, 8 or 16")),
        };
        let to = self.address(s, 0, Space::Shared)?;
        let from = self.address(s, 1, Space::Global)?;
        let length = if s.operands.len() == 4 {
            self.source_bytes(s, bytes)?
        } else {
            self.word_constant(u32::from(bytes))
        };
        Ok(Some(Op::Memory(MemoryOp::CopyAsync { to, from, bytes, length })))
    }

    /// How many bytes are read: the last operand is that number, or a predicate that is true where none are.
    fn source_bytes(&mut self, s: &Statement<'a>, bytes: u8) -> Result<Word, PtxError> {
        match self.declared_bits(self.operand(s, 3)) {
            Some(1) => {
                let by = self.pred(s, 3)?;
                let (a, b) = (self.word_constant(0), self.word_constant(u32::from(bytes)));
                // A slot that nothing else uses.
                let d = Word(self.code.words as u16);
                self.code.words += 1;
                self.emit(Op::Data(DataOp::SelectWord { d, a, b, by }));
                Ok(d)
            }
            // Address arithmetic may leave the count in 64 bits.
            Some(64) => Err(self.misfit(s, 3, "a register of 32 bits")),
            _ => self.bits(s, 3),
        }
    }
}

/// Whether PTX has the operation on the type.
fn fits(op: AtomicKind, ty: AtomicType) -> bool {
    match ty {
        AtomicType::Int(Int::U16 | Int::S16) => op == AtomicKind::CompareAndSwap,
        AtomicType::Int(int) => match op {
            AtomicKind::Increment | AtomicKind::Decrement => int == Int::U32,
            _ => true,
        },
        AtomicType::F32 | AtomicType::F64 => op == AtomicKind::Add,
        AtomicType::Half(_) | AtomicType::HalfPair(_) => {
            matches!(op, AtomicKind::Add | AtomicKind::Min | AtomicKind::Max)
        }
    }
}
