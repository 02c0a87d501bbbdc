//! Operands to slots. Immediates, symbols and special registers get slots of their own.

use super::Decoder;
use super::modifiers::{Modifiers, Type};
use crate::error::PtxError;
use crate::parse::syntax::{Class, Operand, Register, Statement, Symbol};
use crate::program::{Address, Condition, Long, Pred, Slot, Space, Special, Word};

/// The operand that is read where an instruction leaves one out.
const MISSING: Operand<'static> = Operand::Sink;

impl<'a> Decoder<'_, 'a> {
    /// The error that an operand is not what its instruction takes.
    pub(super) fn misfit(&self, s: &Statement<'a>, place: usize, expected: &'static str) -> PtxError {
        PtxError::Operand { line: s.line, instruction: s.opcode.to_owned(), operand: place, expected }
    }

    /// The slot of a register; one that no live value has gets the sink.
    fn register(&self, register: Register) -> (Class, u16) {
        let class = self.function.registers[register.0 as usize].class;
        let sink = match class {
            Class::Word => Word::SINK.0,
            Class::Long => Long::SINK.0,
            Class::Predicate => Pred::SINK.0,
        };
        (class, self.slots[register.0 as usize].unwrap_or(sink))
    }

    /// How many bits a register operand was declared with.
    pub(super) fn declared_bits(&self, operand: &Operand<'a>) -> Option<u32> {
        match operand {
            Operand::Register(register) => Some(self.function.registers[register.0 as usize].bits),
            _ => None,
        }
    }

    pub(super) fn operand<'s>(&self, s: &'s Statement<'a>, place: usize) -> &'s Operand<'a> {
        s.operands.get(place).unwrap_or(&MISSING)
    }

    /// A constant of 32 bits.
    pub(super) fn word_constant(&mut self, bits: u32) -> Word {
        let code = &mut self.code;
        *self.words.entry(bits).or_insert_with(|| {
            let slot = Word(code.words as u16);
            code.words += 1;
            code.word_constants.push((slot, bits));
            slot
        })
    }

    /// A constant of 64 bits.
    pub(super) fn long_constant(&mut self, bits: u64) -> Long {
        let code = &mut self.code;
        *self.longs.entry(bits).or_insert_with(|| {
            let slot = Long(code.longs as u16);
            code.longs += 1;
            code.long_constants.push((slot, bits));
            slot
        })
    }

    fn special(&mut self, name: &str, line: u32) -> Result<Word, PtxError> {
        let special = special_register(name);
        let Some(special) = special else {
            return match name {
                "WARP_SZ" => Ok(self.word_constant(32)),
                // No kernel runs on more than one device or as part of a cluster.
                "%cluster_ctaid.x" | "%cluster_ctaid.y" | "%cluster_ctaid.z" | "%cluster_ctarank" => {
                    Ok(self.word_constant(0))
                }
                _ => match self.symbol(name) {
                    Some(address) => Ok(self.word_constant(address as u32)),
                    None => Err(PtxError::Undeclared { line, name: name.to_owned() }),
                },
            };
        };
        if let Some(&(_, slot)) = self.specials.iter().find(|(known, _)| *known == special) {
            return Ok(slot);
        }
        let slot = Word(self.code.words as u16);
        self.code.words += 1;
        self.specials.push((special, slot));
        self.code.specials.push((slot, special));
        Ok(slot)
    }

    /// The address of a symbol in its own state space.
    fn symbol(&self, name: &str) -> Option<u64> {
        Some(match *self.function.symbols.get(name)? {
            Symbol::Module(offset) => self.layout.module_data + offset as u64,
            Symbol::DynamicShared => self.layout.dynamic_shared,
            Symbol::Shared(offset) | Symbol::Local(offset) | Symbol::Parameter(offset) => offset as u64,
        })
    }

    /// A source of up to 32 bits.
    pub(super) fn word_of(
        &mut self,
        s: &Statement<'a>,
        place: usize,
        operand: &Operand<'a>,
        ty: Type,
    ) -> Result<Word, PtxError> {
        let mask = if ty.bits() < 32 { (1 << ty.bits()) - 1 } else { u32::MAX };
        Ok(match *operand {
            Operand::Register(register) => match self.register(register) {
                (Class::Word, slot) => Word(slot),
                _ => return Err(self.misfit(s, place, "a register of up to 32 bits")),
            },
            Operand::Integer(value) => self.word_constant(value as u32 & mask),
            Operand::Single(bits) => self.word_constant(bits),
            Operand::Double(value) => self.word_constant((value as f32).to_bits()),
            Operand::Name(name) => self.special(name, s.line)?,
            Operand::Sum(name, offset) => match self.symbol(name) {
                Some(address) => self.word_constant((address as i64 + offset) as u32),
                None => return Err(PtxError::Undeclared { line: s.line, name: name.to_owned() }),
            },
            _ => return Err(self.misfit(s, place, "a value of up to 32 bits")),
        })
    }

    pub(super) fn word(&mut self, s: &Statement<'a>, place: usize, ty: Type) -> Result<Word, PtxError> {
        self.word_of(s, place, self.operand(s, place), ty)
    }

    /// A source of 32 bits, whatever they mean.
    pub(super) fn bits(&mut self, s: &Statement<'a>, place: usize) -> Result<Word, PtxError> {
        self.word(s, place, Type::Int { bits: 32, signed: false })
    }

    /// A source of 64 bits.
    pub(super) fn long_of(
        &mut self,
        s: &Statement<'a>,
        place: usize,
        operand: &Operand<'a>,
    ) -> Result<Long, PtxError> {
        let undeclared = |name: &str| PtxError::Undeclared { line: s.line, name: name.to_owned() };
        Ok(match *operand {
            Operand::Register(register) => match self.register(register) {
                (Class::Long, slot) => Long(slot),
                _ => return Err(self.misfit(s, place, "a register of 64 bits")),
            },
            Operand::Integer(value) => self.long_constant(value),
            Operand::Double(value) => self.long_constant(value.to_bits()),
            Operand::Name(name) => {
                let address = self.symbol(name).ok_or_else(|| undeclared(name))?;
                self.long_constant(address)
            }
            Operand::Sum(name, offset) => {
                let address = self.symbol(name).ok_or_else(|| undeclared(name))?;
                self.long_constant(address.wrapping_add_signed(offset))
            }
            _ => return Err(self.misfit(s, place, "a value of 64 bits")),
        })
    }

    pub(super) fn long(&mut self, s: &Statement<'a>, place: usize) -> Result<Long, PtxError> {
        self.long_of(s, place, self.operand(s, place))
    }

    /// A source of the type's size.
    pub(super) fn value(&mut self, s: &Statement<'a>, place: usize, ty: Type) -> Result<Slot, PtxError> {
        Ok(if ty.bits() == 64 {
            Slot::Long(self.long(s, place)?)
        } else {
            Slot::Word(self.word(s, place, ty)?)
        })
    }

    /// A predicate, which may be negated.
    pub(super) fn condition_of(
        &mut self,
        s: &Statement<'a>,
        place: usize,
        operand: &Operand<'a>,
    ) -> Result<Condition, PtxError> {
        let (register, flip) = match *operand {
            Operand::Register(register) => (register, 0),
            Operand::Not(register) => (register, u32::MAX),
            Operand::Integer(value) => {
                return Ok(Condition { pred: Pred::TRUE, flip: if value == 0 { u32::MAX } else { 0 } });
            }
            _ => return Err(self.misfit(s, place, "a predicate")),
        };
        match self.register(register) {
            (Class::Predicate, slot) => Ok(Condition { pred: Pred(slot), flip }),
            _ => Err(self.misfit(s, place, "a predicate")),
        }
    }

    pub(super) fn condition(&mut self, s: &Statement<'a>, place: usize) -> Result<Condition, PtxError> {
        self.condition_of(s, place, self.operand(s, place))
    }

    /// A predicate as it is.
    pub(super) fn pred(&mut self, s: &Statement<'a>, place: usize) -> Result<Pred, PtxError> {
        let condition = self.condition(s, place)?;
        if condition.flip == 0 {
            Ok(condition.pred)
        } else {
            Err(self.misfit(s, place, "a predicate register"))
        }
    }

    /// A destination of any class.
    pub(super) fn to_slot(
        &self,
        s: &Statement<'a>,
        place: usize,
        operand: &Operand<'a>,
        bits: u8,
    ) -> Result<Slot, PtxError> {
        match *operand {
            Operand::Sink if bits == 64 => Ok(Slot::Long(Long::SINK)),
            Operand::Sink => Ok(Slot::Word(Word::SINK)),
            Operand::Register(register) => match self.register(register) {
                (Class::Word, slot) if bits < 64 => Ok(Slot::Word(Word(slot))),
                (Class::Long, slot) => Ok(Slot::Long(Long(slot))),
                _ => Err(self.misfit(s, place, "a register of the instruction's size")),
            },
            _ => Err(self.misfit(s, place, "a register")),
        }
    }

    pub(super) fn to_word_of(
        &self,
        s: &Statement<'a>,
        place: usize,
        operand: &Operand<'a>,
    ) -> Result<Word, PtxError> {
        match self.to_slot(s, place, operand, 32)? {
            Slot::Word(word) => Ok(word),
            Slot::Long(_) => Err(self.misfit(s, place, "a register of up to 32 bits")),
        }
    }

    pub(super) fn to_word(&self, s: &Statement<'a>, place: usize) -> Result<Word, PtxError> {
        self.to_word_of(s, place, self.operand(s, place))
    }

    pub(super) fn to_long(&self, s: &Statement<'a>, place: usize) -> Result<Long, PtxError> {
        match self.to_slot(s, place, self.operand(s, place), 64)? {
            Slot::Long(long) => Ok(long),
            Slot::Word(_) => Err(self.misfit(s, place, "a register of 64 bits")),
        }
    }

    pub(super) fn to_pred_of(
        &self,
        s: &Statement<'a>,
        place: usize,
        operand: &Operand<'a>,
    ) -> Result<Pred, PtxError> {
        match *operand {
            Operand::Sink => Ok(Pred::SINK),
            Operand::Register(register) => match self.register(register) {
                (Class::Predicate, slot) => Ok(Pred(slot)),
                _ => Err(self.misfit(s, place, "a predicate register")),
            },
            _ => Err(self.misfit(s, place, "a predicate register")),
        }
    }

    /// A destination that is a register, and a predicate behind `|` where there is one.
    pub(super) fn to_pair(&self, s: &Statement<'a>) -> Result<(Word, Pred), PtxError> {
        match self.operand(s, 0) {
            Operand::Pair(first, second) => {
                Ok((self.to_word_of(s, 0, first)?, self.to_pred_of(s, 0, second)?))
            }
            _ => Ok((self.to_word(s, 0)?, Pred::SINK)),
        }
    }

    /// An address operand in a state space.
    pub(super) fn address(
        &mut self,
        s: &Statement<'a>,
        place: usize,
        space: Space,
    ) -> Result<Address, PtxError> {
        let Operand::Address(base, offset) = self.operand(s, place) else {
            return Err(self.misfit(s, place, "an address"));
        };
        let (base, offset) = (base.as_ref(), *offset);
        let Operand::Register(register) = *base else {
            let absolute = match *base {
                Operand::Name(name) => Operand::Sum(name, offset),
                Operand::Integer(value) => Operand::Integer(value.wrapping_add_signed(offset)),
                _ => return Err(self.misfit(s, place, "an address")),
            };
            return Ok(Address { space, base: Slot::Long(self.long_of(s, place, &absolute)?), offset: 0 });
        };
        let offset = i32::try_from(offset).map_err(|_| self.misfit(s, place, "an offset of 32 bits"))?;
        match self.register(register) {
            (Class::Long, slot) => Ok(Address { space, base: Slot::Long(Long(slot)), offset }),
            (Class::Word, slot) => Ok(Address { space, base: Slot::Word(Word(slot)), offset }),
            (Class::Predicate, _) => Err(self.misfit(s, place, "an address")),
        }
    }

    /// The registers of a vector operand, or of a single one.
    pub(super) fn parts<'s>(&self, s: &'s Statement<'a>, place: usize) -> &'s [Operand<'a>] {
        match s.operands.get(place) {
            Some(Operand::Vector(parts)) => parts,
            Some(single) => std::slice::from_ref(single),
            None => &[],
        }
    }

    /// Refuses a statement with another number of operands.
    pub(super) fn takes(
        &self,
        s: &Statement<'a>,
        m: &Modifiers<'a>,
        range: std::ops::RangeInclusive<usize>,
    ) -> Result<(), PtxError> {
        if range.contains(&s.operands.len()) { Ok(()) } else { Err(m.unsupported()) }
    }
}

fn special_register(name: &str) -> Option<Special> {
    let axis = |of: fn(u8) -> Special, name: &str| match name {
        "x" => Some(of(0)),
        "y" => Some(of(1)),
        "z" => Some(of(2)),
        _ => None,
    };
    if let Some((register, dimension)) = name.split_once('.') {
        return match register {
            "%tid" => axis(Special::Thread, dimension),
            "%ntid" => axis(Special::BlockSize, dimension),
            "%ctaid" => axis(Special::Block, dimension),
            "%nctaid" => axis(Special::GridSize, dimension),
            _ => None,
        };
    }
    Some(match name {
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::WarpCount,
        "%lanemask_eq" => Special::LaneMaskEqual,
        "%lanemask_lt" => Special::LaneMaskLess,
        "%lanemask_le" => Special::LaneMaskLessEqual,
        "%lanemask_gt" => Special::LaneMaskGreater,
        "%lanemask_ge" => Special::LaneMaskGreaterEqual,
        "%dynamic_smem_size" => Special::DynamicSharedBytes,
        "%total_smem_size" => Special::TotalSharedBytes,
        _ => return None,
    })
}
